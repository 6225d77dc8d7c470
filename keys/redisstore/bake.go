package redisstore

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/guardd/guardd/keys"
)

// Rules are the same for every attempt of a kind, and sending, hashing and
// unpacking them is a tenth of what Redis does for one. So the take script is
// given to Redis once per set of rules, with their numbers in its text.
//
// Redis keeps every script that it was ever given (some 40 KB each), so there
// are few: for further rules, and when none has been unused for long, the rules
// travel with the call. Equal rules make the same text, in any realm and at any
// instance.

// maxBaked is how many scripts one process gives Redis in a bakedIdle.
const (
	maxBaked  = 64
	bakedIdle = 600 // seconds
)

// bakery makes scripts of rules. It is safe for concurrent use.
type bakery struct {
	scripts sync.Map // *keys.Rules: *loaf
	n       atomic.Int64
	swept   atomic.Int64 // Unix seconds
	mu      sync.Mutex
}

type loaf struct {
	script
	used atomic.Int64 // Unix seconds
}

// script returns the take script for rules; ok is false when they have to
// travel.
func (b *bakery) script(r *keys.Rules) (sc *script, ok bool) {
	now := time.Now().Unix()
	if v, found := b.scripts.Load(r); found {
		l := v.(*loaf)
		if l.used.Load() != now {
			l.used.Store(now)
		}
		return &l.script, true
	}
	return b.bake(r, now)
}

func (b *bakery) bake(r *keys.Rules, now int64) (*script, bool) {
	if b.n.Load() >= maxBaked && now-b.swept.Load() < bakedIdle {
		return nil, false // no lock: this may be every call of a realm
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n.Load() >= maxBaked {
		b.sweep(now)
	}
	if b.n.Load() >= maxBaked {
		return nil, false
	}
	l := &loaf{script: bakeTake(r)}
	l.used.Store(now)
	if v, found := b.scripts.LoadOrStore(r, l); found {
		return &v.(*loaf).script, true
	}
	b.n.Add(1)
	return &l.script, true
}

// sweep forgets the scripts of rules that a reload has replaced.
func (b *bakery) sweep(now int64) {
	b.swept.Store(now)
	b.scripts.Range(func(r, l any) bool {
		if now-l.(*loaf).used.Load() >= bakedIdle {
			b.scripts.Delete(r)
			b.n.Add(-1)
		}
		return true
	})
}

// What bakeTake replaces, in settle.lua and reply.lua, and how a reply begins.
const (
	replyHead      = "<BdddddddBBBBBBBBBBc16"
	madeReply      = "'" + replyHead + "' .. string.rep('Bd', limits)"
	sentRules      = "{ sunpack(ARGV[3], ARGV[2]) }"
	sentThresholds = "{ sunpack('<' .. string.rep('HHH', limits), ARGV[2], r[last + 1]) }"
)

// bakeTake writes rules into the take script.
func bakeTake(r *keys.Rules) script {
	slots, thresholds := r.WireTable()
	table := make([]byte, 0, 8*len(slots))
	for _, n := range slots {
		table = append(strconv.AppendInt(table, n, 10), ',')
	}
	table = append(table, '0') // where the thresholds would begin
	var ts []byte
	for _, t := range thresholds {
		ts = append(strconv.AppendInt(ts, int64(t), 10), ',')
	}
	text := strings.NewReplacer(
		sentRules, "{"+string(table)+"}",
		sentThresholds, "{"+string(ts)+"}",
		madeReply, "'"+replyHead+strings.Repeat("Bd", r.LimitCount())+"'",
	).Replace(takeScript.text)
	text = bakePlain(r) + text
	return script{text, redis.NewScript(text).Hash()}
}

var (
	//go:embed plain.lua
	plainText string
	// plainAsk is what a call says, between its cost and its identity, when nothing
	// bears on it but the buckets: no device, no proof, no floor, no shadow, no
	// marks, the buckets from the first key on, and no more. It is what packAsk makes
	// of such an ask, whatever fields there are.
	plainAsk = func() string {
		head := packAsk(&keys.Ask{Keys: []string{"bucket"}}, 0).head
		return string(head[plainFrom : len(head)-2*len(keys.Ask{}.AttemptID)]) // and a body, of the same length
	}()
)

// plainFrom is after the time, the deadline and the cost.
const plainFrom = 3 * 8

// bakePlain writes the short way for rules of one limit that have one, else
// nothing.
func bakePlain(r *keys.Rules) string {
	if len(r.Tiers()) != 1 || r.LimitCount() != 1 {
		return ""
	}
	t := &r.Tiers()[0]
	l := &t.Limits[0]
	slots, _ := r.WireTable()
	floor := slots[slotNormal] % 4
	if t.Role >= keys.ScalePosture || floor > 0 || l.Zero() || l.Steps != (keys.Steps{Delay: keys.Never, Captcha: keys.Never, Verify: keys.Empty}) {
		return ""
	}
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	var plain strings.Builder
	for _, b := range []byte(plainAsk) {
		fmt.Fprintf(&plain, `\%03d`, b)
	}
	end := int64(plainFrom + len(plainAsk))
	return strings.NewReplacer("$plain", plain.String(), "$end", n(end), "$identity", n(end+1), "$body", n(end+16), "$reply", replyHead, "$shape", n(int64(r.Shape())), "$id", n(int64(l.ID())),
		"$units", n(l.Units()), "$capacity", n(l.Capacity), "$count", n(l.Count), "$period", n(l.Period)).Replace(plainText)
}
