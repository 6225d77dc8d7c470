package detect

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// learnt is a detector that knows of a site with a scan of 8 cold failures a
// bin and 40 successes, of which a tenth fail.
func learnt(t *testing.T) (*Detector, int64) {
	t.Helper()
	r := rand.New(rand.NewPCG(4, 2))
	d := New(1)
	at := int64(monday)
	for ; at < monday+8*day; at += Width {
		b := Bin{Start: at, Taken: 14}
		b.Count[Success], b.Count[Cold] = count(r, 40), count(r, 12)
		d.Watch.Step(&b, false)
	}
	if d.Watch.Baseline().Learning() {
		t.Fatal("it is still learning")
	}
	return d, at
}

// play shows d what happens in each bin: 12 honest cold failures from anywhere,
// 40 successes, and the attack's.
func play(d *Detector, r *rand.Rand, at int64, bins int, attack func(bin, i int) (Sight, bool)) (last Result, all []Result, end int64) {
	for n := range bins {
		b := Bin{Start: at, Taken: 14}
		see := func(s Sight) {
			s.At = at + 5*second
			d.See(&s)
			b.Observe(&s)
		}
		for range count(r, 12) {
			ip := from(fmt.Sprintf("%d.%d.%d.1", 20+r.IntN(60), r.IntN(250), r.IntN(250)))
			see(Sight{Class: Cold, Account: strconv.Itoa(r.Int()), Source: ip, Wide: wide(ip), Tag: strconv.Itoa(r.Int())})
		}
		for range count(r, 40) {
			ip := from(fmt.Sprintf("%d.%d.%d.1", 20+r.IntN(60), r.IntN(250), r.IntN(250)))
			see(Sight{Class: Success, Account: strconv.Itoa(r.Int()), Source: ip, Wide: wide(ip)})
		}
		for i := 0; attack != nil; i++ {
			s, ok := attack(n, i)
			if !ok {
				break
			}
			s.Wide = wide(s.Source)
			see(s)
		}
		last = d.Step(&b)
		all = append(all, last)
		at += Width
	}
	return last, all, at
}

// TestDetectorTightensTheFew: what comes from one address makes it a suspect,
// and nobody else is asked for anything; the campaign says so, and ends.
func TestDetectorTightensTheFew(t *testing.T) {
	d, at := learnt(t)
	r := rand.New(rand.NewPCG(1, 1))
	_, _, at = play(d, r, at, 60, nil)
	bad := from("198.51.100.66")
	begin := at
	last, all, at := play(d, r, at, 60, func(_, i int) (Sight, bool) {
		return Sight{Class: Cold, Account: strconv.Itoa(r.Int()), Source: bad, Tag: strconv.Itoa(r.Int())}, i < 60
	})
	if last.Level != Calm {
		t.Errorf("the level is %v", last.Level)
	}
	if _, ok := last.Suspects[bad]; !ok || len(last.Suspects) > 3 {
		t.Errorf("suspects %v, want %v", last.Suspects, bad)
	}
	first := slices.IndexFunc(all, func(x Result) bool { return len(x.Suspects) > 0 })
	if first < 0 || first > 3 {
		t.Errorf("suspect after %d bins", first+1)
	}
	last, all, _ = play(d, r, at, 6*70, nil)
	if len(last.Suspects) != 0 {
		t.Errorf("an hour after the end %v are suspects", last.Suspects)
	}
	var closed []string
	for _, x := range all {
		for _, k := range x.Campaigns {
			if k.End != 0 && k.Start >= begin {
				closed = append(closed, k.What)
				if !slices.ContainsFunc(k.Groups, func(g Group) bool { return g.Prefix == bad }) {
					t.Errorf("%s: groups %+v", k.What, k.Groups)
				}
				if len(k.Sample) == 0 && k.What == distributed {
					t.Errorf("%s has no sample", k.What)
				}
			}
		}
	}
	slices.Sort(closed)
	if !slices.Equal(closed, []string{distributed, "many_accounts"}) {
		t.Errorf("closed campaigns: %q", closed)
	}
}

// TestDetectorRaisesTheLevel: what comes from everywhere raises it, the
// campaign says what was done, and it is let go.
func TestDetectorRaisesTheLevel(t *testing.T) {
	d, at := learnt(t)
	r := rand.New(rand.NewPCG(1, 1))
	_, _, at = play(d, r, at, 60, nil)
	everywhere := func(n, i int) (Sight, bool) {
		ip := from(fmt.Sprintf("10.%d.%d.%d", r.IntN(250), r.IntN(250), r.IntN(250)))
		return Sight{Class: Cold, Account: strconv.Itoa(r.Int()), Source: ip, Tag: strconv.Itoa(r.Int()), Breached: true, Unknown: i%2 == 0}, i < 60
	}
	last, all, at := play(d, r, at, 60, everywhere)
	if last.Level != Critical || len(last.Suspects) > 0 {
		t.Errorf("the level is %v, suspects %v", last.Level, last.Suspects)
	}
	if up := slices.IndexFunc(all, func(x Result) bool { return x.Level > Calm }); up < 0 || up > 4 {
		t.Errorf("up after %d bins", up+1)
	}
	last, all, _ = play(d, r, at, 6*60, nil)
	if last.Level != Calm {
		t.Errorf("an hour later the level is %v", last.Level)
	}
	var k Campaign
	for _, x := range all {
		for _, c := range x.Campaigns {
			if c.What == distributed {
				k = c
			}
		}
	}
	if k.End == 0 || k.Level != Critical || k.Guesses < 2400 || k.Guesses > 4800 || k.Peak < 250 || len(k.Sample) == 0 {
		t.Errorf("campaign %+v", k)
	}
	var done []string
	for _, a := range k.Done {
		done = append(done, a.What)
	}
	if got := strings.Join(done, ", "); !strings.Contains(got, "posture critical") || !strings.HasSuffix(got, "posture normal") {
		t.Errorf("done: %s", got)
	}
}

// TestDetectorSuspectsASprayedPassword, at a pace at which nothing else shows,
// and a right guess with it is noticed.
func TestDetectorSuspectsASprayedPassword(t *testing.T) {
	d, at := learnt(t)
	r := rand.New(rand.NewPCG(1, 1))
	n := 0
	tried := func(bin, i int) (Sight, bool) {
		if bin%6 != 0 || i > 0 {
			return Sight{}, false
		}
		n++
		ip := from(fmt.Sprintf("10.%d.%d.1", n/250, n%250))
		return Sight{Class: Cold, Account: "v" + strconv.Itoa(n), Source: ip, Tag: "spring"}, true
	}
	last, _, at := play(d, r, at, 6*40, tried)
	if last.Tags["spring"] == 0 || len(last.Tags) != 1 {
		t.Fatalf("suspect passwords %v", last.Tags)
	}
	if last.Level != Calm || len(last.Suspects) > 0 {
		t.Errorf("level %v, suspects %v", last.Level, last.Suspects)
	}
	ip := from("10.99.99.1")
	d.See(&Sight{At: at, Class: Success, Account: "x", Source: ip, Wide: wide(ip), Tag: "spring", Stranger: true})
	if got := d.takeovers.sum(at/hour, 2); got != 1 {
		t.Errorf("%d right guesses", got)
	}
}

// TestDetectorSizesTheGlobalTier by what strangers usually spend, and a crowd's by the crowd.
func TestDetectorSizesTheGlobalTier(t *testing.T) {
	d, at := learnt(t)
	s, ok := d.Watch.Baseline().Size(at, 40)
	// 14 a bin are 84 a minute, three times over.
	if !ok || s.PerMinute < 230 || s.PerMinute > 275 || s.Capacity != s.PerMinute*sizeBurst {
		t.Errorf("size %+v, %v", s, ok)
	}
	if _, ok := New(1).Watch.Baseline().Size(at, 40); ok {
		t.Error("who knows nothing sizes the tier")
	}
	b := Bin{Start: at}
	if r := d.Step(&b); r.Size == nil {
		t.Error("the first step gives no size")
	}
	b.Start += Width
	if r := d.Step(&b); r.Size != nil {
		t.Error("every step gives a size")
	}
}

// TestCampaignsAreBounded: who opens thousands closes the oldest.
func TestCampaignsAreBounded(t *testing.T) {
	c := NewCampaigns()
	for i := range 2 * campaignsOpen {
		c.find(&Found{Find: FindSlow, At: monday + int64(i), First: monday, Account: strconv.Itoa(i)})
	}
	open := len(c.open)
	if open > campaignsOpen || open < campaignsOpen*(thinning-1)/thinning {
		t.Errorf("%d are open", open)
	}
	closed, newest := 0, int64(0)
	for _, k := range c.Take() {
		if k.End != 0 {
			closed, newest = closed+1, max(newest, k.End)
		}
	}
	if closed != 2*campaignsOpen-open || newest != monday+int64(closed)-1 {
		t.Errorf("%d were closed, the newest of %d", closed, newest-monday)
	}
	if len(c.Take()) != 0 {
		t.Error("they are given twice")
	}
	c.tidy(monday + 8*day)
	if len(c.open) != 0 || len(c.Take()) != open {
		t.Errorf("%d are open a week after their last sign", len(c.open))
	}
}

// TestASprayIsOneCampaignAcrossMidnight, when its password gets another tag.
func TestASprayIsOneCampaignAcrossMidnight(t *testing.T) {
	c := NewCampaigns()
	c.spray(&Sight{At: monday + day - 1, Account: "a", Tag: "one"}, Sprayed{Tag: "one", Accounts: 20})
	c.spray(&Sight{At: monday + day, Account: "b", Tag: "two", TagBefore: "one"}, Sprayed{Tag: "two", Accounts: 21})
	c.spray(&Sight{At: monday + day + 1, Account: "c", Tag: "two"}, Sprayed{Tag: "two", Accounts: 22})
	if list := c.Take(); len(list) != 1 || len(c.open) != 1 || list[0].Guesses != 3 || list[0].Accounts != 22 {
		t.Errorf("%+v, %d are open", list, len(c.open))
	}
}

// TestCampaignsEndByTheirLastSign, and hammers at one account from two places are two.
func TestCampaignsEndByTheirLastSign(t *testing.T) {
	c := NewCampaigns()
	at := int64(monday)
	for range 12 {
		for _, ip := range []string{"192.0.2.1", "192.0.2.2"} {
			c.find(&Found{Find: FindHammer, At: at, First: monday, Account: "root", Source: from(ip)})
		}
		at += 20 * minute
		c.tidy(at)
	}
	if len(c.open) != 2 {
		t.Fatalf("%d are open, want 2", len(c.open))
	}
	c.Take()
	c.tidy(at + hour)
	for _, k := range c.Take() {
		if k.End != at-20*minute || k.Start != monday {
			t.Errorf("%s: from %d to %d", k.ID, k.Start-monday, k.End-monday)
		}
	}
	if len(c.open) != 0 {
		t.Errorf("%d are open an hour after", len(c.open))
	}
}

func TestCampaignsSpeak(t *testing.T) {
	name := func(h string) string { return "<" + h + ">" }
	c := NewCampaigns()
	for want, f := range map[string]Found{
		"<root>: guessed at 211 times from 64 addresses over 21 days":               {Find: FindSlow, Account: "root", At: monday + 21*day, Guesses: 211, Sources: 64},
		"<eve>: guessed at 148 times from 198.18.64.1 within 3 hours":               {Find: FindHammer, Account: "eve", Source: from("198.18.64.1"), At: monday + 3*hour, Guesses: 148},
		"<bob>: signed in to from 198.18.64.1 after 12 failures":                    {Find: FindSuccess, Account: "bob", Source: from("198.18.64.1"), At: monday, Guesses: 12},
		"198.18.64.1: failed on 30 accounts within 5 minutes":                       {Find: FindAccounts, Source: from("198.18.64.1"), At: monday + 5*minute, Accounts: 30},
		"198.18.64.1: tried 30 names, most of which do not exist, within 5 minutes": {Find: FindNames, Source: from("198.18.64.1"), At: monday + 5*minute, Accounts: 30},
	} {
		f.First = monday
		if got := c.find(&f).Text(name); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
