package aggregate

import (
	"bytes"
	"net/netip"
	"time"

	"github.com/guardd/guardd/aggregate/detect"
	"github.com/guardd/guardd/keys"
)

// aheadMost is how far ahead of the clock an event may be. One that is further
// would close every bin up to its time.
const aheadMost = 60 * keys.Second

// instancesKept bounds the instances whose numbers are followed in a realm, and
// instanceLife for how long after their last event.
const (
	instancesKept = 256
	instanceLife  = keys.Day
)

// realm is what is known of one realm in one partition. Its handler's lock is
// held over all of it.
type realm struct {
	name      string
	instances map[string]*sequence
	// before are the numbers up to which the instances' events were read by
	// whoever had the partition last, read those up to which they are now. known
	// says that of instances that are not in before nothing was.
	before, read map[string]uint64
	known        bool

	classer *classer
	forgers *forgeries
	seen    overview
	shown   time.Time // when seen was written last
	bins    bins
	sizes   *sizes
	loaded  int                   // how many of sizes' parts have been read
	early   map[keys.Address]bool // signed in from before they were
	saves   int                   // the part to write next
	stored  []uint64              // hashes of the parts as they are stored
	watch   Watch                 // nil: nobody watches
	// Hashes of what the watch remembers as it is stored, and the part to write next.
	remembered []uint64
	nextPart   int
	names      sealedNames
	asn        func(netip.Addr) uint32
	forged     uint64 // findings of forgers

	stats RealmStats
	todo  todo
}

// todo is what is to be written, until it is.
type todo struct {
	recents  [][]byte
	bytes    int               // of recents, those that are being written included
	upto     map[string]uint64 // the last numbers of the instances' events
	k        map[netip.Prefix]learned
	control  *keys.Control
	findings [][]byte
	state    []byte // the Watch's
}

// RealmStats counts what was read of a realm.
type RealmStats struct {
	Events     uint64 // each once
	Duplicates uint64 // repeats, dropped
	Missing    uint64 // numbers that an instance has passed over and that have not come; lost, or still on their way
	Late       uint64 // too late for their bin
	Ahead      uint64 // with a time that is yet to come
	Classes    [detect.Classes]uint64
	Bins       uint64    // closed
	Overfull   uint64    // times that what is remembered was cut short, for want of room
	Unkept     uint64    // recent events dropped, because the store did not take them in time
	Stale      uint64    // controls that another aggregator was ahead of
	Mark       time.Time // of the latest event
	Accounts   int       // followed to learn the sizes of addresses
	Sampled    int       // of so many accounts one is followed
	Watch      WatchStatus
	Shared     int // addresses and networks that count as more than one person
}

func newRealm(name string) *realm {
	return &realm{name: name, instances: map[string]*sequence{}, read: map[string]uint64{}, early: map[keys.Address]bool{}, classer: newClasser(), forgers: newForgeries(), sizes: newSizes(sizeAccounts),
		stored: make([]uint64, sizeParts), todo: newTodo()}
}

// take reads one event at now, by the store's clock.
func (r *realm) take(e *Event, raw []byte, now int64, keep bool) {
	at := e.Time.UnixMicro()
	if !r.fresh(e, at) {
		r.stats.Duplicates++
		return
	}
	if e.Seq > r.before[e.Instance] {
		if keep && e.Kind != KindEnd {
			r.keep(raw)
		}
		r.todo.upto[e.Instance] = max(r.todo.upto[e.Instance], e.Seq)
	}
	if e.Kind == KindEnd {
		return
	}
	r.names.keep(e)
	r.stats.Events++
	ahead := at > now+aheadMost
	if ahead {
		r.stats.Ahead++
	}
	addr, err := netip.ParseAddr(e.IP)
	if ahead || err != nil {
		return
	}
	if r.bins.mark > now+aheadMost {
		r.setBack()
	}
	ip, account := keys.AddressOf(addr), accountHash(e.Account)
	if e.Kind == KindOutcome && e.Flow == login && e.Outcome == successName && !e.Duplicate && !e.Expired {
		r.sizes.signedIn(account, placeOf(ip), hourOf(at))
		r.size(ip, now)
	}
	r.seen.see(e, at)
	c := r.classer.class(e, at, account, ip)
	if r.asn != nil && (c.counts || c.seen) {
		c.sight.ASN = r.asn(ip.Addr())
	}
	if r.watch != nil {
		r.once(r.forgers.see(e, at, account, ip))
	}
	r.count(c, at)
}

// setBack begins anew with what goes by time: the store's clock was ahead, and has
// been set back. Else all that comes until it is as late again would come too late.
func (r *realm) setBack() {
	was := r.classer
	r.classer, r.forgers, r.bins = newClasser(), newForgeries(), bins{}
	r.classer.successes.overfull, r.classer.asked.overfull, r.classer.pending.overfull = was.successes.overfull, was.asked.overfull, was.pending.overfull
}

// once publishes what is of a moment.
func (r *realm) once(f *Finding) {
	if f == nil {
		return
	}
	if b, err := f.AppendTo(nil); err == nil {
		r.act(Act{Findings: [][]byte{b}})
		r.forged++
	}
}

// earlyMost bounds the addresses of before the sizes were read.
const earlyMost = 1 << 14

// size has the size of an address written, if that is due. It waits until all that
// was learned before has been read: it would be too small.
func (r *realm) size(ip keys.Address, now int64) {
	if r.loaded < sizeParts {
		if len(r.early) < earlyMost {
			r.early[ip] = true
		}
		return
	}
	for _, k := range r.sizes.due(ip, now) {
		r.todo.k[k.prefix] = k.learned
	}
}

// allLoaded takes up what waited for that.
func (r *realm) allLoaded(now int64) {
	for ip := range r.early {
		r.size(ip, now)
	}
	r.early = nil
}

var successName = keys.Success.String()

// fresh reports whether the event has not been read before.
func (r *realm) fresh(e *Event, at int64) bool {
	s := r.instances[e.Instance]
	if s == nil {
		upto, known := r.before[e.Instance]
		if !known && !r.known {
			upto = e.Seq - 1 // where this instance was then, nobody knows
		}
		s = newSequence(e.Seq, upto)
		r.instances[e.Instance] = s
		r.forgetInstances(at)
	}
	s.last = max(s.last, at)
	was := s.missing
	fresh := s.take(e.Seq)
	r.stats.Missing += s.missing - was // may be less
	return fresh
}

// forgetInstances drops those that have ended, and the longest silent ones where
// they are too many.
func (r *realm) forgetInstances(at int64) {
	oldest, since := "", at
	for name, s := range r.instances {
		if s.last > 0 && s.last < at-instanceLife {
			delete(r.instances, name)
			delete(r.before, name)
			delete(r.read, name)
		} else if s.last > 0 && s.last < since {
			oldest, since = name, s.last
		}
	}
	if len(r.instances) > instancesKept && oldest != "" {
		delete(r.instances, oldest)
		delete(r.before, oldest)
		delete(r.read, oldest)
	}
}

// recentsWait is how much of recent events waits for the store.
const recentsWait = 8 << 20

func (r *realm) keep(raw []byte) {
	if r.todo.bytes+len(raw) > recentsWait {
		r.stats.Unkept++
		return
	}
	r.todo.recents = append(r.todo.recents, bytes.Clone(raw))
	r.todo.bytes += len(raw)
}

// count puts what an event counts as in the bin of its time.
func (r *realm) count(c classed, at int64) {
	bin, late := r.bins.at(at, func(b *detect.Bin) {
		r.stats.Bins++
		if r.watch != nil {
			r.act(r.watch.Bin(b))
		}
	})
	if late {
		r.stats.Late++
	}
	if c.counts {
		r.stats.Classes[c.sight.Class]++
	}
	if (c.counts || c.seen) && r.watch != nil {
		r.watch.See(&c.sight)
	}
	if bin == nil {
		return
	}
	if c.counts {
		bin.Observe(&c.sight)
	}
	bin.Solved += c.solved
	bin.Taken += c.taken
	bin.Given += c.given
	bin.NotChecked += c.notCheck
}

// findingsWait is how many findings wait for the bus.
const findingsWait = 1000

// act takes note of what is to be done. The last control is the one that counts.
func (r *realm) act(a Act) {
	if a.Control != nil {
		r.todo.control = a.Control
	}
	for _, f := range a.Findings {
		r.todo.findings = append(r.todo.findings, r.names.fill(f))
	}
	r.todo.findings = r.todo.findings[max(len(r.todo.findings)-findingsWait, 0):]
}

// now returns the counts as they are.
func (r *realm) now() RealmStats {
	s := r.stats
	s.Overfull = r.classer.successes.overfull + r.classer.asked.overfull + r.classer.pending.overfull
	if r.bins.mark > 0 {
		s.Mark = time.UnixMicro(r.bins.mark).UTC()
	}
	s.Accounts, s.Sampled, s.Shared = r.sizes.count, 1<<r.sizes.level, len(r.sizes.written)
	if r.watch != nil {
		s.Watch = r.watch.Status()
		s.Watch.count(FindingCount{TokenForgery, FindingOnce}, r.forged)
	}
	return s
}
