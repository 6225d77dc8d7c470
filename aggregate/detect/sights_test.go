package detect

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"
)

func from(s string) netip.Prefix {
	a := netip.MustParseAddr(s)
	return netip.PrefixFrom(a, a.BitLen())
}

func wide(p netip.Prefix) netip.Prefix {
	w, _ := p.Addr().Prefix(24)
	return w
}

func TestSeenRemembersForAPeriodOrTwo(t *testing.T) {
	s := seen{period: day}
	at := int64(monday + 5*hour)
	if s.add(at, 1) || !s.add(at+20*hour, 1) {
		t.Error("not new at first, or new again within a day")
	}
	if !s.add(at+40*hour, 1) {
		t.Error("forgotten within a day of its last sight")
	}
	if s.add(at+40*hour+2*day, 1) {
		t.Error("remembered over two days without a sight")
	}
	s.add(at+90*day, 7)
	if s.has(1) || !s.has(7) {
		t.Error("a long pause left something behind")
	}
}

// TestSeenIsUnmovedByWhatComesLate: one late event must not make all that was seen new.
func TestSeenIsUnmovedByWhatComesLate(t *testing.T) {
	s := seen{period: day}
	s.add(monday, 1)
	s.add(monday-day, 2)
	if !s.has(1) || !s.add(monday, 2) {
		t.Error("what came late has made others new, or is not known")
	}
}

// TestNoveltyRemembersAsLongAsItSays: a network for 14 days and not for 28, an account
// for one and not for two, from whatever day on.
func TestNoveltyRemembersAsLongAsItSays(t *testing.T) {
	for from0 := range int64(28) {
		for _, s := range []struct {
			after            int64
			network, account bool
		}{{day - second, false, false}, {2 * day, false, true}, {14*day - second, false, true}, {28 * day, true, true}} {
			n := NewNovelty(1)
			x := Sight{At: monday + from0*day, Class: Cold, Account: "a", Wide: wide(from("192.0.2.1"))}
			n.Mark(&x)
			x.At += s.after
			if n.Mark(&x); x.NewNetwork != s.network || x.NewAccount != s.account {
				t.Errorf("%d s later, from day %d on: new network %v, new account %v", s.after/second, from0, x.NewNetwork, x.NewAccount)
			}
		}
	}
}

// TestNoveltyKnowsWhoWasRefused: an account that was refused has been tried, and its
// first failure at the password is not its first.
func TestNoveltyKnowsWhoWasRefused(t *testing.T) {
	n := NewNovelty(1)
	x := Sight{At: monday, Class: Unsolved, Account: "a", Wide: wide(from("192.0.2.1"))}
	if n.Mark(&x); x.NewAccount {
		t.Error("of who was refused it is not known whether the account exists: it is not counted")
	}
	x.Class = Cold
	if n.Mark(&x); x.NewAccount {
		t.Error("who was refused before is new")
	}
}

// TestBloomIsRarelyWrong, and never about what it holds, at any size.
func TestBloomIsRarelyWrong(t *testing.T) {
	h := hasher{3}
	for _, n := range []int{100, 5_000, 200_000} {
		var b bloom
		for i := range n {
			b.add(h.text(strconv.Itoa(i)))
		}
		wrong := 0
		for i := range n {
			if !b.has(h.text(strconv.Itoa(i))) {
				t.Fatalf("of %d, %d was forgotten", n, i)
			}
			if b.has(h.text("other " + strconv.Itoa(i))) {
				wrong++
			}
		}
		if share := float64(wrong) / float64(n); share > 0.015 {
			t.Errorf("of %d: %.3f of others are thought to be in it", n, share)
		}
	}
}

func TestHasherTellsPairsApart(t *testing.T) {
	h := hasher{1}
	if h.pair("a", "bc") == h.pair("ab", "c") || h.text("x") == (hasher{2}).text("x") {
		t.Error("pairs are run together, or the seed does nothing")
	}
	if p := from("10.0.0.0"); h.prefix(p) == h.prefix(wide(p)) || h.prefix(p) == (hasher{2}).prefix(p) {
		t.Error("an address is its network, or the seed does nothing")
	}
}

func TestNovelty(t *testing.T) {
	n := NewNovelty(1)
	for i, s := range []struct {
		after             int64
		account, ip       string
		class             Class
		network, account1 bool
	}{
		{0, "a", "192.0.2.1", Cold, true, true},
		{minute, "b", "192.0.2.9", Cold, false, true},    // the same /24
		{minute, "a", "198.51.100.1", Cold, true, false}, // the same account
		{minute, "c", "203.0.113.1", Success, true, false},
		{minute, "c", "203.0.113.1", Cold, false, true}, // a success is no failure
		{40 * day, "a", "192.0.2.1", Cold, true, true},  // long ago
	} {
		x := Sight{At: monday + s.after + int64(i), Account: s.account, Class: s.class, Source: from(s.ip), Wide: wide(from(s.ip))}
		if n.Mark(&x); x.NewNetwork != s.network || x.NewAccount != s.account1 {
			t.Errorf("step %d: new network %v, new account %v", i, x.NewNetwork, x.NewAccount)
		}
	}
}

// TestHeavyKeepsTheHeaviest among a hundred times as many light ones, and
// never says more than the truth.
func TestHeavyKeepsTheHeaviest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	h := newHeavy[int](64, 2*minute)
	at := int64(monday)
	for i := range 100_000 {
		at += minute / 1000 // 1,000 a minute
		key := 1000 + r.IntN(6400)
		if i%10 == 0 { // 100 a minute among five
			key = r.IntN(5)
		}
		h.add(at, key, true, "")
		if key == 3 {
			h.add(at, key, false, "")
		}
	}
	top := h.top(at, 5, 0)
	if len(top) != 5 {
		t.Fatalf("%d are heavy", len(top))
	}
	for _, e := range top {
		if e.key >= 5 || e.failed < 12 || e.failed > 28 || (e.in > 10) != (e.key == 3) {
			t.Errorf("key %d with %.1f failures and %.1f sign-ins a minute, want one of five with 20", e.key, e.failed, e.in)
		}
	}
	// Who took another's place has none of its weight.
	if all := h.top(at, 64, 6); len(all) != 5 {
		t.Errorf("%d are said to fail more than 6 times a minute", len(all))
	}
	if later := h.top(at+20*minute, 5, 0.1); len(later) != 0 {
		t.Errorf("20 minutes later %v are still heavy", later)
	}
	h.add(at+400*minute, 9, true, "") // weights are scaled anew
	if top := h.top(at+400*minute, 1, 0); len(top) != 1 || top[0].key != 9 {
		t.Errorf("after a long pause the heaviest is %v", top)
	}
}

func TestAttribution(t *testing.T) {
	office := from("203.0.113.7")
	for _, s := range []struct {
		name   string
		attack func(i int) (ip string, tag string)
		want   GroupKind
		n      int
	}{
		{"one address", func(int) (string, string) { return "198.51.100.1", "" }, GroupSource, 1},
		{"five addresses", func(i int) (string, string) { return fmt.Sprintf("198.51.%d.1", i%5), "" }, GroupSource, 4},
		{"a /24", func(i int) (string, string) { return fmt.Sprintf("198.51.100.%d", i%250), "" }, GroupNetwork, 1},
		{"one password from everywhere", func(i int) (string, string) { return fmt.Sprintf("10.%d.%d.1", i%256, i/256), "p" }, GroupTag, 1},
		{"everywhere", func(i int) (string, string) { return fmt.Sprintf("10.%d.%d.1", i%256, i/256), strconv.Itoa(i) }, "", 0},
	} {
		a := NewAttribution()
		at := int64(monday)
		for i := range 3000 { // ten minutes of 300 guesses a minute
			at += minute / 300
			ip, tag := s.attack(i)
			a.See(&Sight{At: at, Class: Cold, Source: from(ip), Wide: wide(from(ip)), Tag: tag, Account: "v" + strconv.Itoa(i)})
			// An office fails as often, and signs in five times for each.
			a.See(&Sight{At: at, Class: Cold, Source: office, Wide: wide(office), Tag: "o" + strconv.Itoa(i)})
			for range 5 {
				a.See(&Sight{At: at, Class: Success, Source: office, Wide: wide(office)})
			}
		}
		got := a.Few(at, 300, 0.3)
		if len(got) != s.n || len(got) > 0 && got[0].Kind != s.want {
			t.Errorf("%s: %+v, want %d of %q", s.name, got, s.n, s.want)
		}
		for _, g := range got {
			if g.Prefix == office || g.Prefix == wide(office) {
				t.Errorf("%s: the office is among them", s.name)
			}
		}
	}
}

// honestly makes an hour of honest failures: n a minute, each with a password
// of its own, but for one of a hundred that is popular.
func honestly(s *Spray, r *rand.Rand, from int64, perMinute int) (flagged int) {
	for i := range 60 * perMinute {
		at := from + int64(i)*minute/int64(perMinute)
		tag := fmt.Sprintf("%d-%d", at/day, r.Int64())
		before := ""
		if r.IntN(100) == 0 {
			p := r.IntN(10) // one of ten popular ones
			tag, before = daily(p, at)
		}
		if p, ok := s.See(&Sight{At: at, Class: Cold, Account: strconv.FormatInt(r.Int64(), 36), Tag: tag, TagBefore: before}); ok && p.New {
			flagged++
		}
	}
	return flagged
}

// daily are the tags of a password under the keys of a day and of the day before.
func daily(p int, at int64) (tag, before string) {
	return fmt.Sprintf("%d under %d", p, at/day), fmt.Sprintf("%d under %d", p, at/day-1)
}

// TestSprayIsFlaggedWithin25Accounts, whatever its pace within a day, among
// others' failures.
func TestSprayIsFlaggedWithin25Accounts(t *testing.T) {
	for _, every := range []int64{second, minute, 30 * minute, 50 * minute} {
		for _, begin := range []int64{10 * hour, 20 * hour} { // the second runs across midnight
			r := rand.New(rand.NewPCG(2, 3))
			s := NewSpray(7)
			at := int64(monday)
			for ; at < monday+3*day; at += hour {
				honestly(s, r, at, 20)
			}
			at += begin
			accounts, next := 0, at
			for hour0 := at; accounts < 40; hour0 += hour {
				if honestly(s, r, hour0, 20) > 0 {
					t.Errorf("every %d s: an honest password was flagged", every/second)
				}
				done := false
				for next < hour0+hour && !done {
					accounts++
					tag, before := daily(1000, next)
					x := Sight{At: next, Class: Cold, Account: "victim " + strconv.Itoa(accounts), Tag: tag, TagBefore: before}
					p, ok := s.See(&x)
					done = ok && p.New
					next += every
				}
				if done {
					break
				}
			}
			if accounts > 25 || accounts < 15 {
				t.Errorf("every %d s from hour %d: flagged at account %d", every/second, begin/hour, accounts)
			}
		}
	}
}

// TestSprayCountsAccounts: one account's failures with a password are one.
func TestSprayCountsAccounts(t *testing.T) {
	s := NewSpray(1)
	for i := range 5000 {
		if _, ok := s.See(&Sight{At: monday + int64(i)*second, Class: Cold, Account: "a" + strconv.Itoa(i%15), Tag: "t"}); ok {
			t.Fatal("fifteen accounts were enough")
		}
	}
}

// TestSprayCountsAcrossMidnight: what was tried before it is not tried anew.
func TestSprayCountsAcrossMidnight(t *testing.T) {
	s := NewSpray(1)
	for i := range 30 {
		x := Sight{At: monday + 23*hour + int64(i/15)*2*hour, Class: Cold, Account: strconv.Itoa(i % 15)}
		x.Tag, x.TagBefore = daily(1, x.At)
		if _, ok := s.See(&x); ok {
			t.Fatalf("flagged at attempt %d on fifteen accounts", i)
		}
	}
	if len(s.tags) != 1 {
		t.Errorf("one password is counted under %d tags", len(s.tags))
	}
}

// TestSprayFlagsNoPopularPassword: for weeks of honest failures, in which ten
// passwords make up a hundredth, nothing is flagged, not on the day of a
// mailing either.
func TestSprayFlagsNoPopularPassword(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	s := NewSpray(1)
	flagged := 0
	for h := range int64(14 * 24) {
		n := 20
		if h/24 == 10 && h%24 >= 9 && h%24 < 11 {
			n = 34
		}
		f := honestly(s, r, monday+h*hour, n)
		if h >= 48 {
			flagged += f
		}
	}
	if flagged > 0 {
		t.Errorf("%d honest passwords were flagged in 12 days", flagged)
	}
}

// TestSprayIsForgotten a day after its last account.
func TestSprayIsForgotten(t *testing.T) {
	s := NewSpray(1)
	x := Sight{Class: Cold}
	for i := range 30 {
		x.At, x.Account = monday+int64(i)*second, strconv.Itoa(i)
		x.Tag, x.TagBefore = daily(1, x.At)
		s.See(&x)
	}
	for _, hours := range []int64{1, 20, 30} {
		y := Sight{At: monday + hours*hour}
		y.Tag, y.TagBefore = daily(1, y.At)
		if got := s.Flagged(&y); got != (hours < 24) {
			t.Errorf("%d hours later flagged is %v", hours, got)
		}
	}
}

func TestAccounts(t *testing.T) {
	days := func(n int) int64 { return int64(n) * day }
	for _, s := range []struct {
		name string
		make func(i int) (after int64, ip string)
		n    int
		want Find
		no   bool
	}{
		{"three a day from 64 addresses", func(i int) (int64, string) { return days(i / 3), fmt.Sprintf("10.0.%d.1", i%64) }, 64, FindSlow, false},
		{"many in one day from many addresses", func(i int) (int64, string) { return int64(i) * minute, fmt.Sprintf("10.0.%d.1", i%64) }, 64, 0, true},
		{"an owner who forgets, at home", func(i int) (int64, string) { return days(i / 3), "10.0.0.1" }, 64, 0, true},
		{"all morning from one address", func(i int) (int64, string) { return int64(i) * minute, "10.0.0.1" }, 64, FindHammer, false},
		{"all morning from one address, among others", func(i int) (int64, string) {
			return int64(i) * minute, []string{"10.0.0.1", "10.0.0.1", "10.0.9." + strconv.Itoa(i)}[i%3]
		}, 100, FindHammer, false},
	} {
		a := NewAccounts(1)
		var got Found
		found, news := false, 0
		for i := range s.n {
			after, ip := s.make(i)
			if f, ok := a.See(&Sight{At: monday + after, Class: Cold, Account: "root", Source: from(ip)}); ok {
				got, found = f, true
				news += one(f.New)
			}
		}
		if found == s.no || found && got.Find != s.want {
			t.Errorf("%s: found %v, %+v", s.name, found, got)
		}
		if found && (news == 0 || got.First != monday) {
			t.Errorf("%s: told %d times, from %d on", s.name, news, got.First-monday)
		}
		if s.want == FindSlow && found && (got.Sources != 64 || got.Guesses != 64) {
			t.Errorf("%s: %d guesses from %d addresses", s.name, got.Guesses, got.Sources)
		}
	}
}

// TestAccountsFindTheHammerAmongOthers: the address that most guesses come from is
// not always the first one.
func TestAccountsFindTheHammerAmongOthers(t *testing.T) {
	a := NewAccounts(1)
	at, found := int64(monday), ""
	for i := range 200 {
		at += minute
		ip := "192.0.2.7"
		switch {
		case i < 20:
			ip = "10.0.0.1"
		case i%4 == 0:
			ip = fmt.Sprintf("10.0.0.%d", i)
		}
		if f, ok := a.See(&Sight{At: at, Class: Cold, Account: "root", Source: from(ip)}); ok && f.Find == FindHammer {
			found = f.Source.String()
		}
	}
	if found != "192.0.2.7/32" {
		t.Errorf("the hammer was %q", found)
	}
}

// TestAccountsKeepsWhoIsGuessedAt while a hundred times as many others fail
// once or twice.
func TestAccountsKeepsWhoIsGuessedAt(t *testing.T) {
	const victim = "!" // of equals those that come first make room
	a := NewAccounts(1)
	at, found := int64(monday), false
	for i := range 400_000 {
		at += 5 * day / 400_000
		name, ip := strconv.Itoa(i/2), "192.0.2.1"
		if i%16_000 == 0 {
			name, ip = victim, fmt.Sprintf("10.0.%d.1", i/16_000)
		}
		f, ok := a.See(&Sight{At: at, Class: Cold, Account: name, Source: from(ip)})
		found = found || ok && f.Account == victim && f.Find == FindSlow
	}
	if !found {
		t.Error("root was lost among the others")
	}
	if len(a.at) > accountsKept {
		t.Errorf("%d accounts are kept", len(a.at))
	}
}

func TestSuccessAfterFailures(t *testing.T) {
	for _, s := range []struct {
		failures int
		stranger bool
		want     bool
	}{{succeeded, true, true}, {succeeded, false, false}, {succeeded - 1, true, false}} {
		a := NewAccounts(1)
		for i := range s.failures {
			a.See(&Sight{At: monday + int64(i)*second, Class: Cold, Account: "a", Source: from("10.0.0.1")})
		}
		f, ok := a.See(&Sight{At: monday + hour, Class: Success, Account: "a", Stranger: s.stranger, Source: from("10.9.9.9")})
		if got := ok && f.Find == FindSuccess; got != s.want {
			t.Errorf("%d failures, stranger %v: %v", s.failures, s.stranger, got)
		}
	}
}

func TestSources(t *testing.T) {
	for _, s := range []struct {
		name    string
		unknown int // of ten accounts
		in      int // sign-ins of ten accounts
		n       int
		want    Find
		no      bool
	}{
		{"a list of another site", 3, 0, 30, FindAccounts, false},
		{"a dictionary of names", 9, 0, 30, FindNames, false},
		{"a school", 0, 5, 300, 0, true},
		{"a few", 0, 0, manyAccounts - 1, 0, true},
	} {
		x, found := NewSources(1), false
		var got Found
		for i := range s.n {
			at := monday + int64(i)*second
			if i%10 < s.in {
				x.See(&Sight{At: at, Class: Success, Source: from("10.0.0.1"), Account: "in" + strconv.Itoa(i)})
			}
			for range 3 { // the same account again is not another
				if f, ok := x.See(&Sight{At: at, Class: Cold, Source: from("10.0.0.1"), Account: strconv.Itoa(i), Unknown: i%10 < s.unknown}); ok {
					got, found = f, true
				}
			}
		}
		if found == s.no || found && (got.Find != s.want || got.Accounts != s.n) {
			t.Errorf("%s: found %v, %+v", s.name, found, got)
		}
	}
}

// TestSourcesAreBounded, and who tries most stays: he is found after others had to go.
func TestSourcesAreBounded(t *testing.T) {
	x, found := NewSources(1), false
	for i := range 2 * sourcesKept {
		ip := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		x.See(&Sight{At: monday, Class: Cold, Source: netip.PrefixFrom(ip, 32), Account: "a"})
		if i%2500 == 0 {
			_, ok := x.See(&Sight{At: monday, Class: Cold, Source: from("192.0.2.1"), Account: strconv.Itoa(i)})
			found = found || ok
		}
	}
	if len(x.at) > sourcesKept || !found {
		t.Errorf("%d sources, the busy one found %v", len(x.at), found)
	}
}

// providerOf are 64 networks of one provider and as many of others.
func providerOf(i int) (ip string, asn uint32) {
	if n := i % 128; n >= 64 {
		return fmt.Sprintf("198.18.%d.%d", n, i%250), uint32(n)
	}
	return fmt.Sprintf("198.51.%d.%d", i%64, i%250), 64500
}

// TestAProvidersNetworksAreSuspects where most of an attack comes from them, though
// none of them stands out.
func TestAProvidersNetworksAreSuspects(t *testing.T) {
	for _, s := range []struct {
		name  string
		guess func(i int) (ip string, asn uint32)
		want  int // networks
	}{
		{"one provider", func(i int) (string, uint32) { return providerOf(i % 64) }, 64},
		{"one among many", providerOf, 0},
		{"no file", func(i int) (string, uint32) { ip, _ := providerOf(i % 64); return ip, 0 }, 0},
		{"of too many networks", func(i int) (string, uint32) { return fmt.Sprintf("10.%d.%d.1", i/256%8, i%256), 64500 }, 0},
	} {
		a := NewAttribution()
		at := int64(monday)
		for i := range 10 * 600 {
			at += minute / 600
			ip, asn := s.guess(i)
			a.See(&Sight{At: at, Class: Cold, Source: from(ip), Wide: wide(from(ip)), ASN: asn, Account: strconv.Itoa(i)})
		}
		got := a.Few(at, 600, 0.3)
		networks := 0
		for _, g := range got {
			if g.Kind == GroupNetwork {
				networks++
			}
		}
		// The least of them that make up seven tenths.
		if s.want == 0 && got != nil || s.want > 0 && (networks < s.want*7/10-2 || networks > s.want || got[0].Kind != GroupASN || got[0].Key != "64500") {
			t.Errorf("%s: %d networks of %+v", s.name, networks, got)
		}
		if most := 2 * kept; len(a.of) > most {
			t.Errorf("%s: %d networks are remembered", s.name, len(a.of))
		}
	}
}
