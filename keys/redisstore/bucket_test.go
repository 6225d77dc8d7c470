package redisstore

import (
	"context"
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

// lua runs expr, in terms of x (a list of n numbers), once for each of the
// vectors, behind bucket.lua.
func lua(t *testing.T, c *redis.Client, expr string, vectors [][]int64) []int64 {
	t.Helper()
	var in call
	for _, v := range vectors {
		in.number(v...)
	}
	const driver = `
local n, out, at = tonumber(ARGV[2]), {}, 1
while at < #ARGV[1] do
  local x = {}
  for i = 1, n do x[i], at = sunpack('<d', ARGV[1], at) end
  out[#out + 1] = spack('<d', EXPR)
end
return table.concat(out)`
	text := newScript("bucket").text + "local A = arithmetic() local function f(x) return " + expr + " end" + replaceOnce(driver, "EXPR", "f(x)")
	s, err := c.Eval(context.Background(), text, nil, in.head, len(vectors[0])).Text()
	if err != nil {
		t.Fatal(err)
	}
	var out []int64
	for b := []byte(s); len(b) > 0; b = b[8:] {
		out = append(out, int64(math.Float64frombits(binary.LittleEndian.Uint64(b))))
	}
	if len(out) != len(vectors) {
		t.Fatalf("%d results for %d vectors", len(out), len(vectors))
	}
	return out
}

func replaceOnce(s, old, by string) string {
	for i := range s {
		if len(s[i:]) >= len(old) && s[i:i+len(old)] == old {
			return s[:i] + by + s[i+len(old):]
		}
	}
	return s
}

// edge draws numbers from 1 to MaxExact: small, near powers of two, anything.
func edge(r *rand.Rand) int64 {
	switch r.IntN(5) {
	case 0:
		return 1 + r.Int64N(20)
	case 1:
		return max(1, keys.MaxExact-r.Int64N(20))
	case 2:
		return min(keys.MaxExact, max(1, int64(1)<<r.IntN(54)+r.Int64N(5)-2))
	case 3:
		return 1 + r.Int64N(1<<r.IntN(53))
	}
	return 1 + r.Int64N(keys.MaxExact)
}

const draws = 4000

func TestLuaMultipliesAndDividesExactly(t *testing.T) {
	c, r := redistest.Start(t).Client(), rand.New(rand.NewPCG(1, 2))
	top := keys.MaxExact
	in := [][]int64{{0, 0, 1}, {0, top, 1}, {1, top, 1}, {1, 1, top}, {top, top, top}, {top - 1, top, top}, {top - 1, top - 1, top},
		{1, top, 2}, {1, 3, 2}, {top / 2, top, top - 1}, {2, top, 3}}
	for len(in) < draws {
		d := edge(r)
		in = append(in, []int64{min(edge(r), d), edge(r), d})
	}
	down, up := lua(t, c, "A.mulDiv(x[1], x[2], x[3], false)", in), lua(t, c, "A.mulDiv(x[1], x[2], x[3], true)", in)
	for i, v := range in {
		p := new(big.Int).Mul(big.NewInt(v[0]), big.NewInt(v[1]))
		q, rem := p.QuoRem(p, big.NewInt(v[2]), new(big.Int))
		if want := q.Int64(); down[i] != want || up[i] != want+int64(rem.Sign()) {
			t.Fatalf("mulDiv%v = %d and %d, want %d and %d", v, down[i], up[i], want, want+int64(rem.Sign()))
		}
	}
}

func TestLuaComparesRatiosExactly(t *testing.T) {
	c, r := redistest.Start(t).Client(), rand.New(rand.NewPCG(3, 4))
	var in [][]int64
	for len(in) < draws {
		a, b := edge(r), edge(r)
		switch r.IntN(3) {
		case 0:
			in = append(in, []int64{a, b, edge(r), edge(r)})
		case 1: // the same ratio in other terms
			k, l := 1+r.Int64N(keys.MaxExact/max(a, b)), 1+r.Int64N(keys.MaxExact/max(a, b))
			in = append(in, []int64{a * k, b * k, a * l, b * l})
		default: // nearly
			in = append(in, []int64{a, b, max(1, a-r.Int64N(2)), max(1, b-r.Int64N(2))})
		}
	}
	same := 0
	for i, got := range lua(t, c, "A.sameRatio(x[1], x[2], x[3], x[4]) and 1 or 0", in) {
		v := in[i]
		l := new(big.Int).Mul(big.NewInt(v[0]), big.NewInt(v[3]))
		if want := l.Cmp(new(big.Int).Mul(big.NewInt(v[1]), big.NewInt(v[2]))) == 0; want != (got == 1) {
			t.Fatalf("sameRatio%v = %d", v, got)
		} else if want {
			same++
		}
	}
	if same < draws/4 {
		t.Errorf("only %d of the vectors were of the same ratio", same)
	}
}

// exactLimit draws a limit up to the bound that loading allows.
func exactLimit(r *rand.Rand) keys.Limit {
	for {
		period := edge(r)
		l := keys.Limit{Capacity: 1 + r.Int64N(keys.MaxExact/period), Count: edge(r), Period: period}
		if r.IntN(2) == 0 {
			l.Count = 1 + r.Int64N(100)
		}
		if l.Exact() {
			return l
		}
	}
}

func TestLuaBringsBucketsForwardAsGoDoes(t *testing.T) {
	c, r := redistest.Start(t).Client(), rand.New(rand.NewPCG(5, 6))
	type vector struct {
		l, old         keys.Limit
		spent, elapsed int64
		tokens         int64
		t              keys.Threshold
	}
	var vs []vector
	var spentIn, backIn, thresholdIn, ceilIn [][]int64
	for len(vs) < draws {
		v := vector{l: exactLimit(r), old: exactLimit(r), t: keys.Threshold(r.IntN(10001))}
		switch r.IntN(4) {
		case 0:
			v.old = v.l
		case 1: // the same time to full, k times the size
			if k := 1 + r.Int64N(40); v.l.Capacity <= keys.MaxExact/k/v.l.Period && v.l.Count <= keys.MaxExact/k && v.l.Times(k).Exact() {
				v.old = v.l.Times(k)
			}
		}
		v.spent, v.tokens = r.Int64N(v.old.Units()+1), 1
		if r.IntN(3) == 0 {
			v.tokens += r.Int64N(v.old.Capacity)
		}
		switch full := v.old.Period / v.old.Count; r.IntN(3) {
		case 0:
			v.elapsed = r.Int64N(full + 2)
		case 1:
			v.elapsed = v.spent / v.l.Count
		default:
			v.elapsed = edge(r)
		}
		vs = append(vs, v)
		spentIn = append(spentIn, []int64{v.spent, v.old.Units(), v.l.Units()})
		backIn = append(backIn, []int64{v.l.Units(), v.l.Count, v.old.Capacity, v.old.Count, v.old.Period, v.elapsed, v.tokens})
		thresholdIn = append(thresholdIn, []int64{int64(v.t), v.l.Units()})
		ceilIn = append(ceilIn, []int64{v.l.Units(), v.l.Count})
	}
	rescaled := lua(t, c, "A.rescale(x[1], x[2], x[3])", spentIn)
	back := lua(t, c, "A.stillCosts(x[1], x[2], x[3], x[4], x[5], x[6], x[7])", backIn)
	at := lua(t, c, "A.threshold(x[1], x[2])", thresholdIn)
	full := lua(t, c, "A.ceilDiv(x[1], x[2])", ceilIn)
	gave := 0
	for i, v := range vs {
		if want := v.l.Spent(v.spent, v.old.Units(), 0); rescaled[i] != want {
			t.Fatalf("Spent %+v = %d, want %d", v, rescaled[i], want)
		}
		want := v.l.Back(v.old, v.tokens, v.elapsed)
		if back[i] != want {
			t.Fatalf("Back %+v = %d, want %d", v, back[i], want)
		}
		if want > 0 {
			gave++
		}
		if want := v.t.Units(v.l, 0); at[i] != want {
			t.Fatalf("Threshold %+v = %d, want %d", v, at[i], want)
		}
		if want := v.l.TimeToFull(); full[i] != want {
			t.Fatalf("TimeToFull %+v = %d, want %d", v, full[i], want)
		}
	}
	if gave < draws/20 {
		t.Errorf("only %d vectors gave anything back", gave)
	}
}
