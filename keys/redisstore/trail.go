package redisstore

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/guardd/guardd/keys"
)

var (
	trailScript                = newScript("trail")
	trailRoomScript            = newScript("trailroom")
	trailDropScript            = newScript("traildrop")
	_               keys.Trail = (*Trail)(nil)
)

// Trail is a keys.Trail in Redis, which all instances share: of each caller a
// list of refusals and one of sums for each segment of time, in the slot of its
// buckets, and beside them, in a slot of their own, who has rows in a segment and
// how much room they take. It is safe for concurrent use.
type Trail struct {
	store *Store
	room  int64

	mu sync.Mutex
	// What is there and could not be booked yet.
	bytes   map[int64]int64 // by segment
	members []any           // pairs of segment and caller
}

// Trail returns one whose rows take up to about room bytes, whoever wrote them:
// all instances must be told the same.
func (s *Store) Trail(room int64) *Trail {
	return &Trail{store: s, room: room, bytes: map[int64]int64{}}
}

const (
	trailTag = "gd:{trail}:"
	// trailWindow is how many segments are looked at: those in which a row may
	// still live, and one at either end for clocks that differ.
	trailWindow = int64(keys.TrailLife/keys.TrailSegment) + 3
	// About what Redis takes for a list beside its rows, for a row beside its
	// data, and for a caller in a set (TestATrailTakesAsMuchOfRedisAsItSays).
	trailList, trailRow, trailMember = 300, 16, 80
	// trailParallel calls are under way at once: the batcher sends those together
	// that wait, and takes must find it free.
	trailParallel = 8
	// trailCallRows is the most rows of one call: Lua's stack bounds them.
	trailCallRows = keys.TrailRefusals
	// trailFailures end an Append: a Redis that is slow takes the rest, one that is
	// gone is not waited for 2,000 times.
	trailFailures = 2 * trailParallel
	// trailUnbooked is the most members kept for later.
	trailUnbooked = 200_000
)

// trailOldest is the oldest segment that counts. The ends of lists are far from it, so
// the machine's clock is good enough.
func trailOldest() int64 {
	return keys.TrailSegmentOf(time.Now().UnixMicro()) - trailWindow + 2
}

// pile is the rows of one list.
type pile struct {
	caller   keys.Account
	refusals bool
	segment  int64 // of sums
	source   []keys.TrailRow
	rows     []any // as they are stored
	kept     bool
}

func (p *pile) key() string {
	space := keys.PlanSpace(p.caller)
	if p.refusals {
		return space.Refusals()
	}
	return space.Sums(p.segment)
}

// Append implements keys.Trail.
func (t *Trail) Append(ctx context.Context, rows []keys.TrailRow) (left []keys.TrailRow, err error) {
	for i := range rows {
		if err := rows[i].Valid(); err != nil {
			return rows, err
		}
	}
	oldest := trailOldest()
	piles, members := t.sort(rows, oldest)
	err = parallel(ctx, piles, func(ctx context.Context, p *pile) error {
		added, gone, err := t.pile(ctx, p)
		p.kept = err == nil
		t.owe(p.segment, added)
		for segment, n := range gone {
			t.owe(segment, -n)
		}
		return err
	})
	for _, p := range piles {
		if !p.kept {
			left = append(left, p.source...)
		}
	}
	// What is there is booked, whatever became of the rest.
	if roomErr := t.keepRoom(ctx, oldest, members); err == nil {
		err = roomErr
	}
	return left, err
}

// owe remembers bytes that are to be booked.
func (t *Trail) owe(segment, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes[segment] += n
}

// sort makes piles of rows. A row of a time that is not now is filed as if it
// were: clocks are broken for a while, and lists end by themselves.
func (t *Trail) sort(rows []keys.TrailRow, oldest int64) (piles []*pile, members []any) {
	type list struct {
		caller   keys.Account
		refusals bool
		segment  int64
	}
	type member struct {
		caller  keys.Account
		segment int64
	}
	of, seen := map[list]*pile{}, map[member]bool{}
	for i := range rows {
		r := &rows[i]
		segment := min(max(keys.TrailSegmentOf(r.At), oldest), oldest+trailWindow-1)
		if m := (member{r.Caller, segment}); !seen[m] {
			seen[m] = true
			members = append(members, segment, r.Caller[:])
		}
		id := list{r.Caller, r.Refusal, segment}
		p := of[id]
		if p == nil {
			p = &pile{caller: r.Caller, refusals: r.Refusal, segment: segment}
			of[id], piles = p, append(piles, p)
		}
		var c call
		c.number(r.At)
		p.source, p.rows = append(p.source, *r), append(p.rows, append(c.head, r.Data...))
	}
	return piles, members
}

// pile appends one pile, and says how many bytes that took, and by segment what
// had to go for it.
func (t *Trail) pile(ctx context.Context, p *pile) (added int64, gone map[int64]int64, err error) {
	most := int64(1 << 40)
	if p.refusals {
		most = keys.TrailRefusals
	}
	life := keys.TrailLife
	if !p.refusals {
		life += keys.TrailSegment
	}
	gone = map[int64]int64{}
	for rows := range slices.Chunk(p.rows, trailCallRows) {
		r, err := t.eval(ctx, trailScript, []string{p.key()}, append([]any{life.Milliseconds(), most, trailList, trailRow}, rows...)...)
		if err != nil {
			return added, gone, err
		}
		r.number()
		added += r.number()
		for len(r.s) > 0 && !r.bad {
			segment := keys.TrailSegmentOf(r.number())
			gone[segment] += r.number()
		}
		if err := r.end(); err != nil {
			return added, gone, wrap("trail", err)
		}
	}
	return added, gone, nil
}

// keepRoom books what was added, and drops the oldest where that was too much.
func (t *Trail) keepRoom(ctx context.Context, oldest int64, members []any) error {
	t.mu.Lock()
	t.members = append(t.members, members...)
	t.members = t.members[max(len(t.members)-2*trailUnbooked, 0):]
	t.mu.Unlock()
	for {
		segment, callers, err := t.bookAll(ctx, oldest)
		if err != nil || len(callers) == 0 {
			return err
		}
		err = parallel(ctx, callers, func(ctx context.Context, caller keys.Account) error {
			freed, err := t.drop(ctx, caller, segment)
			t.owe(segment, -freed)
			return err
		})
		if err != nil { // their rows end by themselves
			return err
		}
	}
}

// bookAll books all that is owed, until somebody's rows have to go.
func (t *Trail) bookAll(ctx context.Context, oldest int64) (segment int64, callers []keys.Account, err error) {
	for first := true; ; first = false {
		t.mu.Lock()
		bytes, some := t.bytes, t.members[:min(len(t.members), 2*trailCallRows)]
		if !first && len(bytes)+len(some) == 0 {
			t.mu.Unlock()
			return 0, nil, nil
		}
		t.bytes, t.members = map[int64]int64{}, t.members[len(some):]
		t.mu.Unlock()
		segment, callers, err = t.book(ctx, oldest, bytes, some)
		if err != nil { // booked twice is too much, never too little
			t.mu.Lock()
			for segment, n := range bytes {
				t.bytes[segment] += n
			}
			t.members = append(t.members, some...)
			t.mu.Unlock()
		}
		if err != nil || len(callers) > 0 {
			return segment, callers, err
		}
	}
}

// book is one call of bookAll.
func (t *Trail) book(ctx context.Context, oldest int64, bytes map[int64]int64, members []any) (segment int64, callers []keys.Account, err error) {
	names := []string{trailTag + "bytes", trailTag + "lost"}
	for i := range trailWindow {
		names = append(names, trailTag+strconv.FormatInt(oldest+i, 10))
	}
	var deltas call
	for segment, n := range bytes {
		deltas.number(segment, n)
	}
	life := keys.TrailLife + 2*keys.TrailSegment
	r, err := t.eval(ctx, trailRoomScript, names, append([]any{oldest, t.room, life.Milliseconds(),
		keys.TrailSegment.Microseconds(), trailMember, deltas.head}, members...)...)
	if err != nil {
		return 0, nil, err
	}
	segment = r.number()
	for len(r.s) > 0 && !r.bad {
		var a keys.Account
		if len(r.s) < len(a) {
			return 0, nil, wrap("trail", errReply)
		}
		copy(a[:], r.s)
		r.s = r.s[len(a):]
		callers = append(callers, a)
	}
	return segment, callers, wrap("trail", r.end())
}

func (t *Trail) drop(ctx context.Context, caller keys.Account, segment int64) (freed int64, err error) {
	space := keys.PlanSpace(caller)
	var end call
	end.number((segment + 1) * keys.TrailSegment.Microseconds())
	r, err := t.eval(ctx, trailDropScript, []string{space.Sums(segment), space.Refusals()}, end.head, trailList, trailRow)
	if err != nil {
		return 0, err
	}
	freed = r.number()
	return freed, wrap("trail", r.end())
}

// eval runs a script within the Store's deadline: it rides with takes, and must
// not hold them up longer than one of them could.
func (t *Trail) eval(ctx context.Context, sc script, names []string, args ...any) (reply, error) {
	ctx, cancel := t.store.within(ctx)
	defer cancel()
	at, err := t.store.server(ctx, names[0])
	if err != nil {
		return reply{}, wrap("trail", err)
	}
	v, err := t.store.eval(ctx, at, sc, names, args...)
	return reply{s: v}, wrap("trail", err)
}

// trailPatience bounds Rows: an operator waits longer than a login.
const trailPatience = time.Second

// Rows implements keys.Trail.
func (t *Trail) Rows(ctx context.Context, caller keys.Account, since int64) (rows []keys.TrailRow, whole int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, max(trailPatience, t.store.deadline))
	defer cancel()
	space, oldest := keys.PlanSpace(caller), trailOldest()
	var lists []*redis.StringSliceCmd
	lost := redis.NewSliceCmd(ctx, "mget", trailTag+"lost")
	_, _ = t.store.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		_ = p.Process(ctx, lost)
		for s := range trailWindow {
			if s += oldest; s >= keys.TrailSegmentOf(since)-1 {
				lists = append(lists, p.LRange(ctx, space.Sums(s), 0, -1))
			}
		}
		lists = append(lists, p.LRange(ctx, space.Refusals(), 0, -1))
		return nil
	}) // each command bears its own error
	for i, l := range lists {
		all, err := l.Result()
		if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") { // that counts as missing
			return nil, 0, wrap("trail", err)
		}
		for _, v := range all {
			r := reply{s: v}
			row := keys.TrailRow{Caller: caller, At: r.number(), Refusal: i == len(lists)-1, Data: []byte(r.s)}
			if !r.bad && row.At >= since && row.Valid() == nil {
				rows = append(rows, row)
			}
		}
	}
	if err := lost.Err(); err != nil {
		return nil, 0, wrap("trail", err)
	}
	if v, ok := lost.Val()[0].(string); ok {
		r := reply{s: v}
		whole = r.number()
	}
	return rows, whole, nil
}

// parallel calls do for each, some at once, until trailFailures have failed; it
// returns the first error.
func parallel[T any](ctx context.Context, all []T, do func(context.Context, T) error) (err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	failed := 0
	note := func(e error) (over bool) {
		mu.Lock()
		defer mu.Unlock()
		if e != nil {
			failed++
			if err == nil {
				err = e
			}
		}
		return failed >= trailFailures
	}
	next := make(chan T)
	for range min(trailParallel, len(all)) {
		wg.Go(func() {
			for x := range next {
				note(do(ctx, x))
			}
		})
	}
	for _, x := range all {
		if note(nil) || ctx.Err() != nil {
			break
		}
		next <- x
	}
	close(next)
	wg.Wait()
	if err == nil {
		err = ctx.Err()
	}
	return err
}
