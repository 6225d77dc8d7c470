package detect

import (
	"slices"
	"strconv"
	"testing"
)

// TestCampaignsAreOfOneEach: what is found of another account, another source, or at
// another time is another one, with an id of its own.
func TestCampaignsAreOfOneEach(t *testing.T) {
	c := NewCampaigns()
	ids := map[string]bool{}
	finds := []Found{
		{Find: FindHammer, First: monday, Account: "a", Source: from("10.0.0.1")},
		{Find: FindHammer, First: monday, Account: "b", Source: from("10.0.0.1")},
		{Find: FindHammer, First: monday, Account: "a", Source: from("10.0.0.2")},
		{Find: FindAccounts, First: monday, Source: from("10.0.0.1")},
		{Find: FindAccounts, First: monday, Source: from("10.0.0.2")},
		{Find: FindNames, First: monday, Source: from("10.0.0.1")},
		{Find: FindSlow, First: monday, Account: "a"},
		{Find: FindSlow, First: monday, Account: "b"},
	}
	for _, f := range finds {
		f.At = monday
		ids[c.find(&f).ID] = true
	}
	if len(ids) != len(finds) || len(c.open) != len(finds) {
		t.Errorf("%d ids of %d that are open, want %d", len(ids), len(c.open), len(finds))
	}
	c.tidy(monday + 30*day)
	again := Found{Find: FindSlow, At: monday + 31*day, First: monday + 31*day, Account: "a"}
	if k := c.find(&again); ids[k.ID] || k.Start != again.First {
		t.Errorf("who comes back is %s from %d on", k.ID, k.Start-monday)
	}
}

// TestCampaignsSayHowMuch: the largest of what was said, samples without repeats,
// and no more of anything than operators can read.
func TestCampaignsSayHowMuch(t *testing.T) {
	c := NewCampaigns()
	c.find(&Found{Find: FindHammer, First: monday, At: monday, Account: "a", Source: from("10.0.0.1"), Guesses: 31})
	k := c.find(&Found{Find: FindHammer, First: monday, At: monday + 1, Account: "a", Source: from("10.0.0.1"), Guesses: 30})
	if k.Guesses != 31 || k.Sources != 1 || k.Accounts != 1 || !slices.Equal(k.Sample, []string{"a"}) || len(k.Groups) != 1 {
		t.Errorf("%+v", k)
	}
	k = c.find(&Found{Find: FindSlow, First: monday, At: monday, Account: "b", Guesses: 30, Sources: 12})
	if k.Sources != 12 || k.Accounts != 1 {
		t.Errorf("%+v", k)
	}
	k = c.find(&Found{Find: FindAccounts, First: monday, At: monday, Source: from("10.0.0.1"), Accounts: 25})
	if k.Accounts != 25 || k.Sources != 1 {
		t.Errorf("%+v", k)
	}
	for i := range 100 {
		k.sample(strconv.Itoa(i))
		k.did(monday, strconv.Itoa(i))
		k.groups([]Group{{Kind: GroupTag, Key: strconv.Itoa(i), Account: "x"}})
	}
	if len(k.Sample) != samples || len(k.Done) != actions || len(k.Groups) != 2*groups {
		t.Errorf("%d samples, %d actions, %d groups", len(k.Sample), len(k.Done), len(k.Groups))
	}
	k.groups([]Group{{Kind: GroupTag, Key: "3", Minute: 9}})
	k.groups([]Group{{Kind: GroupTag, Key: "3", Minute: 7}})
	if i := slices.IndexFunc(k.Groups, func(g Group) bool { return g.Key == "3" }); k.Groups[i].Minute != 9 {
		t.Errorf("the strongest reading is %v", k.Groups[i].Minute)
	}
	k = c.spray(&Sight{At: monday, Account: "v", Tag: "t"}, Sprayed{Tag: "t", Accounts: 20})
	if k.Guesses != 1 || !slices.Equal(k.Sample, []string{"v"}) || len(k.Groups) != 1 || k.Groups[0].Key != "t" {
		t.Errorf("%+v", k)
	}
}

// TestCampaignsAreGivenAsTheyWere: what was taken does not change with what comes
// later; each change is given once; and those that go on are listed by their last sign.
func TestCampaignsAreGivenAsTheyWere(t *testing.T) {
	c := NewCampaigns()
	f := Found{Find: FindHammer, First: monday, At: monday, Account: "a", Source: from("10.0.0.1"), Guesses: 31}
	k := c.find(&f)
	k.did(monday, "told")
	taken, open := c.Take(), c.Open(9)
	if len(taken) != 1 || len(open) != 1 {
		t.Fatalf("%d were taken, %d are open", len(taken), len(open))
	}
	k.Groups[0].Minute, k.Sample[0], k.Done[0].What = 5, "z", "later"
	for _, was := range []Campaign{taken[0], open[0]} {
		if was.Groups[0].Minute != 0 || was.Sample[0] != "a" || was.Done[0].What != "told" {
			t.Errorf("%+v has changed", was)
		}
	}
	f.At, f.Guesses = monday+minute, 40
	if c.find(&f); len(c.changed) != 1 {
		t.Error("an update is not given")
	}
	c.Take()
	other := Found{Find: FindHammer, First: monday, At: monday + 2*minute, Account: "b", Source: from("10.0.0.1")}
	c.find(&other)
	if l := c.Open(1); len(l) != 1 || l[0].Sample[0] != "b" {
		t.Errorf("the latest is %+v", l)
	}
	if l := c.Open(9); len(l) != 2 || l[1].Guesses != 40 {
		t.Errorf("all are %+v", l)
	}
	c.Take()
	c.tidy(monday + 2*hour)
	if l := c.Take(); len(l) != 2 || l[0].End == 0 || l[1].End == 0 {
		t.Errorf("closed ones are %+v", l)
	}
}

// TestSuspectsLeaveRoomForThePosture among what was done: an analyst wants to see
// when strangers were asked after the hundredth address was.
func TestSuspectsLeaveRoomForThePosture(t *testing.T) {
	var k Campaign
	for i := range 2 * actions {
		k.did(monday, "suspect 10.0.0."+strconv.Itoa(i))
	}
	k.did(monday+1, "posture critical")
	if last := k.Done[len(k.Done)-1]; last.What != "posture critical" || len(k.Done) < actions/2 {
		t.Errorf("%d actions, the last is %v", len(k.Done), last)
	}
}

// TestWhatIsSlowIsCounted: an excess of three a minute is half a guess a bin.
func TestWhatIsSlowIsCounted(t *testing.T) {
	d, at := learnt(t)
	for i := range int64(hour / Width) {
		r := Result{Reading: Reading{At: at + i*Width, Excess: 3, Confirmed: true}}
		d.book(&r, true)
	}
	if k := d.Campaigns.open[distributed+" "]; k == nil || k.Guesses < 179 || k.Guesses > 180 {
		t.Errorf("%+v, want 180 guesses", k)
	}
}
