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
}

// Trail returns one whose rows take up to about room bytes, whoever wrote them:
// all instances must be told the same.
func (s *Store) Trail(room int64) *Trail { return &Trail{s, room} }

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
)

// window is the oldest segment that counts. The ends of lists are far from it, so
// the machine's clock is good enough.
func trailOldest() int64 {
	return keys.TrailSegmentOf(time.Now().UnixMicro()) - trailWindow + 2
}

// pile is the rows of one list.
type pile struct {
	caller   keys.Account
	refusals bool
	segment  int64 // of sums
	rows     []any // strings
}

func (p *pile) key() string {
	space := keys.PlanSpace(p.caller)
	if p.refusals {
		return space.Refusals()
	}
	return space.Sums(p.segment)
}

// Append implements keys.Trail.
func (t *Trail) Append(ctx context.Context, rows []keys.TrailRow) error {
	for i := range rows {
		if err := rows[i].Valid(); err != nil {
			return err
		}
	}
	oldest := trailOldest()
	piles, members := t.sort(rows, oldest)
	var mu sync.Mutex
	bytes := map[int64]int64{}
	err := parallel(ctx, piles, func(ctx context.Context, p *pile) error {
		added, gone, err := t.pile(ctx, p)
		mu.Lock()
		defer mu.Unlock()
		bytes[p.segment] += added
		for segment, n := range gone {
			bytes[segment] -= n
		}
		return err
	})
	// What is there is counted, whatever became of the rest.
	if roomErr := t.keepRoom(ctx, oldest, bytes, members); err == nil {
		err = roomErr
	}
	return err
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
		p.rows = append(p.rows, append(c.head, r.Data...))
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

// keepRoom books what was added and drops the oldest where that was too much.
func (t *Trail) keepRoom(ctx context.Context, oldest int64, bytes map[int64]int64, members []any) error {
	for {
		segment, callers, err := t.book(ctx, oldest, bytes, members)
		if err != nil || len(callers) == 0 {
			return err
		}
		var mu sync.Mutex
		bytes, members = map[int64]int64{}, nil
		err = parallel(ctx, callers, func(ctx context.Context, caller keys.Account) error {
			freed, err := t.drop(ctx, caller, segment)
			mu.Lock()
			defer mu.Unlock()
			bytes[segment] -= freed
			return err
		})
		if err != nil { // their rows end by themselves
			return err
		}
	}
}

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
	for first := true; first || len(members) > 0; first = false {
		some := members[:min(len(members), 2*trailCallRows)]
		members = members[len(some):]
		r, err := t.eval(ctx, trailRoomScript, names, append([]any{oldest, t.room, life.Milliseconds(),
			keys.TrailSegment.Microseconds(), trailMember, deltas.head}, some...)...)
		if err != nil {
			return 0, nil, err
		}
		deltas.head = nil
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
		if err := r.end(); err != nil {
			return 0, nil, wrap("trail", err)
		}
		if len(callers) > 0 {
			break // the rest of members are booked with their next rows
		}
	}
	return segment, callers, nil
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

// Rows implements keys.Trail. It takes as long as ctx lets it: nobody's login
// waits for it.
func (t *Trail) Rows(ctx context.Context, caller keys.Account, since int64) (rows []keys.TrailRow, whole int64, err error) {
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

// parallel calls do for each, some at once, until one fails; it returns that error.
func parallel[T any](ctx context.Context, all []T, do func(context.Context, T) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	next := make(chan T)
	for range min(trailParallel, len(all)) {
		wg.Go(func() {
			for x := range next {
				if err := do(ctx, x); err != nil {
					stop(err)
				}
			}
		})
	}
	for _, x := range all {
		if ctx.Err() != nil {
			break
		}
		next <- x
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}
