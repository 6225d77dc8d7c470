package detect

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// TestNothingIsLearntWhileItActs: not while a level is up, not while there are
// suspects, not in an outage, and not of an alarm.
func TestNothingIsLearntWhileItActs(t *testing.T) {
	for _, s := range []struct {
		name string
		set  func(d *Detector, b *Bin)
		want bool
	}{
		{"as ever", func(*Detector, *Bin) {}, true},
		{"a level", func(d *Detector, _ *Bin) {
			d.Control.level, d.Control.sign, d.Control.hold = Elevated, d.sized+40*day, hour
		}, false},
		{"a suspect", func(d *Detector, b *Bin) { d.suspects[from("10.0.0.1")] = b.Start + day }, false},
		{"an outage", func(_ *Detector, b *Bin) { b.NotChecked = 30 }, false},
		{"an attack", func(_ *Detector, b *Bin) { b.Count[Cold] += 200 }, false},
	} {
		d, at := learnt(t)
		for range 2 * hour / Width {
			b := Bin{Start: at, Taken: 14}
			b.Count[Success], b.Count[Cold] = 40, 12
			s.set(d, &b)
			d.Step(&b)
			at += Width
		}
		if _, ok := d.Watch.base.h.at(at/hour - 2); ok != s.want {
			t.Errorf("%s: learnt is %v", s.name, ok)
		}
	}
}

// TestWhoIsLearningOnlyAlerts: once it has seen a day it says what it finds, and
// neither raises the level nor suspects whom an excess that it cannot judge comes from.
// What it has added up meanwhile is no evidence once it knows.
func TestWhoIsLearningOnlyAlerts(t *testing.T) {
	d := New(1)
	told := 0
	at := int64(monday)
	for ; at < monday+7*day+2*hour; at += Width {
		b := Bin{Start: at, Taken: 14}
		b.Count[Success], b.Count[Cold] = 40, 12
		attack := at%day >= 12*hour && at%day < 12*hour+10*minute || at >= monday+6*day+23*hour && at < monday+7*day+2*Width
		for range 60 * one(attack) {
			s := Sight{At: at + second, Class: Cold, Account: "one", Source: from("198.51.100.7"), Wide: wide(from("198.51.100.7"))}
			d.attribution.See(&s)
			b.Observe(&s)
		}
		r := d.Step(&b)
		for _, k := range r.Campaigns {
			told += one(k.What == distributed && k.End == 0 && r.Reading.Learning)
			if k.What == distributed && at < monday+day {
				t.Fatal("before a day was seen it alerts")
			}
		}
		if r.Reading.Learning && (r.Level != Calm || len(r.Suspects) > 0) {
			t.Fatalf("after %d hours the level is %v, suspects %v", (at-monday)/hour, r.Level, r.Suspects)
		}
		if !r.Reading.Learning && (r.Level != Calm || len(r.Suspects) > 0 || d.Watch.volume.fast.share() > 0.5) {
			t.Fatalf("what was added up while it learnt counts: level %v, suspects %v, %v", r.Level, r.Suspects, d.Watch.volume.fast)
		}
	}
	if told == 0 {
		t.Error("it never alerts")
	}
}

// TestDetectorSuspects a source of many accounts for a quarter of an hour and a
// sprayed password for a day from the last sign, with nothing else known.
func TestDetectorSuspects(t *testing.T) {
	d := New(1)
	ip := from("198.51.100.7")
	for i := range manyAccounts {
		d.See(&Sight{At: monday, Class: Cold, Account: strconv.Itoa(i), Source: ip, Wide: wide(ip), Tag: "t"})
	}
	if d.suspects[ip] != monday+suspectFor || d.tags["t"] != monday+day {
		t.Errorf("suspect for %d s, the password for %d s", (d.suspects[ip]-monday)/second, (d.tags["t"]-monday)/second)
	}
	for _, s := range []struct {
		after    int64
		networks int
		tags     int
	}{{0, 1, 1}, {suspectFor - 1, 1, 1}, {suspectFor, 0, 1}, {day, 0, 0}} {
		networks, tags := d.SuspectsAt(monday + s.after)
		if len(networks) != s.networks || len(tags) != s.tags {
			t.Errorf("%d s later %v and %v are suspects", s.after/second, networks, tags)
		}
	}
}

// TestDetectorKnowsARightGuess: a stranger's, from a suspect address or network or
// with a sprayed password; neither the owner's on his own device, nor any stranger's.
func TestDetectorKnowsARightGuess(t *testing.T) {
	bad := from("198.51.100.7")
	near := from("198.51.100.99")
	for _, s := range []struct {
		name string
		x    Sight
		want int
	}{
		{"from the address", Sight{Source: bad, Stranger: true}, 1},
		{"from the network", Sight{Source: near, Stranger: true}, 1},
		{"with the password", Sight{Source: from("10.0.0.1"), Tag: "t", Stranger: true}, 1},
		{"any stranger's", Sight{Source: from("10.0.0.1"), Tag: "u", Stranger: true}, 0},
		{"the owner's", Sight{Source: bad, Tag: "t"}, 0},
		{"a failure", Sight{Source: bad, Tag: "t", Stranger: true, Class: Cold}, 0},
		{"later", Sight{At: 2 * day, Source: bad, Tag: "t", Stranger: true}, 0},
	} {
		d := New(1)
		d.suspects[bad], d.tags["t"] = monday+hour, monday+hour
		if s.name == "from the network" {
			d.suspects[wide(bad)] = monday + hour
		}
		s.x.At, s.x.Account, s.x.Wide = s.x.At+monday, "a", wide(s.x.Source)
		d.See(&s.x)
		if got := d.takeovers.sum(s.x.At/hour, 2); got != s.want {
			t.Errorf("%s: %d right guesses", s.name, got)
		}
	}
}

// TestDetectorCountsRightGuesses towards the level, and the password of a few
// accounts as the group that it is.
func TestDetectorCountsRightGuesses(t *testing.T) {
	d, at := learnt(t)
	r := rand.New(rand.NewPCG(1, 1))
	_, _, at = play(d, r, at, 30, nil)
	for range takenOver {
		d.takeovers.add(at)
	}
	last, _, _ := play(d, r, at, 6, func(_, i int) (Sight, bool) {
		ip := from(fmt.Sprintf("10.%d.%d.%d", r.IntN(250), r.IntN(250), r.IntN(250)))
		return Sight{Class: Cold, Account: strconv.Itoa(r.Int()), Source: ip, Tag: strconv.Itoa(r.Int())}, i < 60
	})
	if !strings.Contains(last.Reason, "5 guesses were right") {
		t.Errorf("the reason is %q", last.Reason)
	}
	d, at = learnt(t)
	_, _, at = play(d, r, at, 30, nil)
	last, _, _ = play(d, r, at, 6, func(_, i int) (Sight, bool) {
		ip := from(fmt.Sprintf("10.%d.%d.%d", r.IntN(250), r.IntN(250), r.IntN(250)))
		return Sight{Class: Cold, Account: "v" + strconv.Itoa(i%5), Source: ip, Tag: "p"}, i < 60
	})
	if last.Tags["p"] == 0 || last.Level != Calm {
		t.Errorf("suspect passwords are %v, the level is %v", last.Tags, last.Level)
	}
}

// TestDetectorIsTold what is known from elsewhere.
func TestDetectorIsTold(t *testing.T) {
	d := New(1)
	ip := from("198.51.100.7")
	d.Meet(wide(ip), monday)
	d.Failed("a", monday)
	s := Sight{At: monday + minute, Class: Cold, Account: "a", Source: ip, Wide: wide(ip)}
	if d.See(&s); s.NewNetwork || s.NewAccount {
		t.Errorf("new network %v, new account %v", s.NewNetwork, s.NewAccount)
	}
}
