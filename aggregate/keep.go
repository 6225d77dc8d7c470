package aggregate

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/guardd/guardd/keys"
)

// What outlives a reader, as documents of its realm:
//
//	read   which events were read, by instance, and are among the recent ones
//	watch  the Watch's state
//	seen0...  what it remembers beside it, if it is a Rememberer
//	k0...  the sizes of addresses, in sizeParts parts
const (
	docRead  = "read"
	docWatch = "watch"
	docSeen  = "seen"
	docSizes = "k"
)

// How long they do: longer than what is in them counts.
const (
	readKept  = 8 * keys.Day
	watchKept = 40 * keys.Day
	sizesKept = 8 * keys.Day
)

// How long a reader waits for the store when it begins, and in all when it ends.
const (
	beginWait = 5 * time.Second
	closeWait = 5 * time.Second
)

// begin makes a realm of what was learned before. whole says that the log is read
// from its first message on.
func (r *reader) begin(name string, whole bool) (*realm, error) {
	ctx, cancel := context.WithTimeout(context.Background(), beginWait)
	defer cancel()
	fail := func(err error) (*realm, error) {
		r.a.failed(opLoad, err)
		return nil, fmt.Errorf("what was learned of %s: %w", name, err)
	}
	x := newRealm(name)
	x.asn = r.a.c.Provider
	read, err := r.a.c.Store.Get(ctx, keys.Learned(name, docRead))
	if err != nil {
		return fail(err)
	}
	x.known = whole || read != nil
	if read != nil {
		if err := json.Unmarshal(read, &x.before); err != nil {
			r.a.failed(opLoad, err) // it is written anew
			x.before, x.known = nil, whole
		}
		maps.Copy(x.read, x.before)
	}
	if r.a.c.Watch != nil {
		state, err := r.a.c.Store.Get(ctx, keys.Learned(name, docWatch))
		if err != nil {
			return fail(err)
		}
		x.watch = r.a.c.Watch(name, state)
		if err := r.recall(ctx, x, state != nil); err != nil {
			return fail(err)
		}
	}
	return x, nil
}

// recall gives a Watch that went on from a state what else was remembered.
func (r *reader) recall(ctx context.Context, x *realm, goesOn bool) error {
	m, ok := x.watch.(Rememberer)
	if !ok {
		return nil
	}
	x.remembered = make([]uint64, m.Parts())
	for i := range x.remembered {
		doc, err := r.a.c.Store.Get(ctx, seenKey(x.name, i))
		if err != nil {
			return err
		}
		if x.remembered[i] = digest(doc); doc == nil || !goesOn {
			continue
		}
		if err := m.Recall(i, doc); err != nil {
			r.a.failed(opLoad, err) // it is written anew
		}
	}
	return nil
}

func seenKey(realm string, part int) string {
	return keys.Learned(realm, docSeen+strconv.Itoa(part))
}

// remember writes the next part of what the Watch remembers, or all of them. What
// fails is written in its next turn.
func (r *reader) remember(ctx context.Context, x *realm, all bool) {
	m, ok := x.watch.(Rememberer)
	if !ok {
		return
	}
	parts := 1
	if all {
		parts = len(x.remembered)
	}
	for range parts {
		i := x.nextPart
		x.nextPart = (i + 1) % len(x.remembered)
		r.mu.Lock()
		doc := m.Part(i)
		r.mu.Unlock()
		is := digest(doc)
		if is == x.remembered[i] {
			continue
		}
		if err := r.a.c.Store.Put(ctx, seenKey(x.name, i), doc, watchKept); err != nil {
			r.a.failed(opSave, err)
			return
		}
		x.remembered[i] = is
	}
}

// flushing writes what was learned until the partition goes, and then all of it.
func (r *reader) flushing() {
	tick := time.NewTicker(r.a.c.Flush)
	defer tick.Stop()
	saved, owed := time.Now(), time.Duration(0)
	ctx := context.Background()
	for {
		select {
		case <-tick.C:
			watch := time.Since(saved) >= r.a.c.Save/5
			if watch {
				saved = time.Now()
			}
			owed += sizeParts * r.a.c.Flush // all parts are written once in Save
			r.flush(ctx, int(owed/r.a.c.Save), watch)
			owed %= r.a.c.Save
		case <-r.wake:
			ctx, cancel := context.WithTimeout(ctx, closeWait)
			defer cancel()
			r.flush(ctx, sizeParts, true)
			return
		}
	}
}

func (r *reader) flush(ctx context.Context, parts int, watch bool) {
	r.mu.Lock()
	realms := make([]*realm, 0, len(r.realms))
	for _, x := range r.realms {
		realms = append(realms, x)
	}
	r.mu.Unlock()
	for _, x := range realms {
		r.flushRealm(ctx, x, parts, watch)
	}
}

// flushRealm writes what is to be written of a realm. What fails is written at the
// next tick, or later.
func (r *reader) flushRealm(ctx context.Context, x *realm, parts int, watch bool) {
	shards, ok := r.a.c.Shards(x.name)
	if !ok {
		return
	}
	r.mu.Lock()
	t := x.todo
	x.todo = newTodo()
	x.todo.bytes = t.bytes // until they are written
	if watch && x.watch != nil {
		t.state = x.watch.State()
	}
	r.mu.Unlock()
	spaces := keys.NewSpaces(x.name, shards)

	r.recents(ctx, x, &t)
	r.control(ctx, x, spaces, &t)
	r.findings(ctx, x, &t)
	r.ks(ctx, spaces, &t)
	r.writeOverview(ctx, x)
	if len(t.state) > 0 {
		if err := r.put(ctx, keys.Learned(x.name, docWatch), t.state, watchKept); err != nil {
			r.a.failed(opSave, err)
		}
		r.remember(ctx, x, parts == sizeParts)
	}
	r.mu.Lock()
	x.again(&t)
	r.mu.Unlock()
	if x.loaded < sizeParts {
		r.load(ctx, x)
	} else {
		r.save(ctx, x, parts)
	}
}

func (r *reader) put(ctx context.Context, key string, value []byte, ttl int64) error {
	_, err := keys.Change(ctx, r.a.c.Store, key, func(was []byte) ([]byte, int64, bool, error) {
		return value, ttl, true, nil
	})
	return err
}

// recents keeps the events of late, and then takes note of how far they go: a
// successor that reads them again does not keep them again.
func (r *reader) recents(ctx context.Context, x *realm, t *todo) {
	if len(t.upto) == 0 {
		return
	}
	if len(t.recents) > 0 {
		if err := r.a.c.Recents.add(ctx, x.name, t.recents); err != nil {
			r.a.failed(opRecents, err)
			return
		}
	}
	r.mu.Lock()
	x.todo.bytes -= t.bytes
	for name, n := range t.upto {
		x.read[name] = n
	}
	if len(x.read) > 2*instancesKept { // those of before that have not been heard of
		maps.DeleteFunc(x.read, func(name string, _ uint64) bool { return x.instances[name] == nil })
	}
	b, err := json.Marshal(x.read)
	r.mu.Unlock()
	t.recents, t.upto, t.bytes = nil, nil, 0
	if err == nil {
		err = r.put(ctx, keys.Learned(x.name, docRead), b, readKept)
	}
	if err != nil {
		r.a.failed(opSave, err)
	}
}

// control sets what the Watch wants to be set, unless another has read further.
func (r *reader) control(ctx context.Context, x *realm, spaces keys.Spaces, t *todo) {
	if t.control == nil {
		return
	}
	set, err := spaces.SetControl(ctx, r.a.c.Store, t.control, r.a.now())
	if err != nil {
		r.a.failed(opControl, err)
		if errors.Is(err, keys.ErrAsk) || errors.Is(err, keys.ErrSubBucket) {
			t.control = nil // it can never be set
		}
		return
	}
	t.control = nil
	if !set {
		r.mu.Lock()
		x.stats.Stale++
		r.mu.Unlock()
	}
}

func (r *reader) findings(ctx context.Context, x *realm, t *todo) {
	if r.a.c.Bus == nil { // an Inline: nobody reads them
		t.findings = nil
	}
	if len(t.findings) == 0 {
		return
	}
	var msgs []Message
	for _, f := range t.findings {
		msgs = append(msgs, Message{Key: x.name, Value: f})
	}
	if err := r.a.c.Bus.Publish(ctx, TopicFindings, msgs); err != nil {
		r.a.failed(opFindings, err)
		return
	}
	t.findings = nil
}

// ks writes the sizes of addresses, in every shard.
func (r *reader) ks(ctx context.Context, spaces keys.Spaces, t *todo) {
	now := r.a.now()
	for p, l := range t.k {
		ttl := max(l.until-now, keys.Second)
		if err := spaces.Put(ctx, r.a.c.Store, func(s keys.Space) string { return s.K(p) }, keys.EncodeK(l.k, l.until), ttl); err != nil {
			r.a.failed(opSizes, err)
			return
		}
		delete(t.k, p)
	}
}

func newTodo() todo { return todo{upto: map[string]uint64{}, k: map[netip.Prefix]learned{}} }

// again puts what could not be written before what has come since.
func (x *realm) again(t *todo) {
	x.todo.recents = append(t.recents, x.todo.recents...)
	for name, n := range t.upto {
		x.todo.upto[name] = max(x.todo.upto[name], n)
	}
	if x.todo.control == nil {
		x.todo.control = t.control
	}
	x.todo.findings = append(t.findings, x.todo.findings...)
	for p, l := range t.k {
		if _, newer := x.todo.k[p]; !newer {
			x.todo.k[p] = l
		}
	}
}

func sizesKey(realm string, part int) string {
	return keys.Learned(realm, docSizes+strconv.Itoa(part))
}

// load reads what was learned of the sizes of addresses before.
func (r *reader) load(ctx context.Context, x *realm) {
	for x.loaded < sizeParts {
		doc, err := r.a.c.Store.Get(ctx, sizesKey(x.name, x.loaded))
		if err != nil {
			r.a.failed(opLoad, err)
			return
		}
		r.mu.Lock()
		r.merge(x, x.loaded, doc)
		if x.loaded++; x.loaded == sizeParts {
			x.allLoaded(r.a.now())
		}
		r.mu.Unlock()
	}
}

// merge takes over a part as it is stored.
func (r *reader) merge(x *realm, part int, doc []byte) {
	if err := x.sizes.merge(doc); err != nil {
		r.a.failed(opLoad, err) // it is written anew
	}
	x.stored[part] = digest(doc)
}

// save brings the next parts and their documents to the same. Another may have
// written to them: without Kafka each instance learns of its own events only, and
// the documents are what they have in common.
func (r *reader) save(ctx context.Context, x *realm, parts int) {
	for range parts {
		if err := r.savePart(ctx, x, x.saves); err != nil {
			r.a.failed(opSave, err)
			return
		}
		x.saves = (x.saves + 1) % sizeParts
	}
	r.mu.Lock()
	x.sizes.forgetWritten(r.a.now())
	r.mu.Unlock()
}

func (r *reader) savePart(ctx context.Context, x *realm, part int) error {
	var is []byte
	changed := false // in a try that another was ahead of, too
	done, err := keys.Change(ctx, r.a.c.Store, sizesKey(x.name, part), func(was []byte) ([]byte, int64, bool, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if digest(was) != x.stored[part] {
			r.merge(x, part, was)
		}
		if changed = changed || x.sizes.parts[part].changed; !changed {
			return nil, 0, false, nil
		}
		is = x.sizes.encode(part, r.a.now())
		return is, sizesKept, true, nil
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		x.sizes.parts[part].changed = true
		return err
	}
	if done {
		x.stored[part] = digest(is)
	}
	return nil
}

func digest(b []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(b)
	return h.Sum64()
}
