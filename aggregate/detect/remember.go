package detect

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// What a Detector remembers of who came is too large to be written as often as its
// state is, and changes less: it comes in parts. Without them every network would be
// new after a restart, and every failure an account's first: two channels at once
// said so for a day, so that a third more failures than usual were an attack; what
// people do not know is popular would be called sprayed; and guessing at one account
// over days would be seen by nobody who is restarted as often.

// Parts is how many there are.
const Parts = 2*seens + 2

// seens is how many memories of what was seen are among them, of two periods each.
const seens = 3

func (d *Detector) seen(i int) *seen {
	return [seens]*seen{&d.novelty.networks, &d.novelty.accounts, &d.Accounts.pairs}[i]
}

// Part returns part i, from 0 to Parts-1: at most a megabyte and a half.
func (d *Detector) Part(i int) []byte {
	switch i {
	case Parts - 2:
		k := d.Accounts.kept()
		k.Seed = d.seed
		return encodePart(k)
	case Parts - 1:
		return encodePart(d.Spray.kept())
	}
	return d.seen(i/2).encode(i%2, d.seed)
}

// Recall takes up part i of a predecessor, before any sight. The error says what is
// wrong with data; then nothing was taken up. Parts of a Detector that this one is
// not the successor of are wrong.
func (d *Detector) Recall(i int, data []byte) error {
	switch {
	case i < 0 || i >= Parts:
		return fmt.Errorf("there is no part %d of what was seen", i)
	case i == Parts-2:
		return recall(data, func(k *keptAccounts) bool { return k.Seed == d.seed && d.Accounts.recall(k) })
	case i == Parts-1:
		return recall(data, d.Spray.recall)
	}
	return d.seen(i/2).decode(data, d.seed)
}

// maxPart is more than Part ever makes.
const maxPart = 2 << 20

var errPart = errors.New("not a part of what a detector has seen")

func encodePart(v any) []byte {
	var out bytes.Buffer
	if err := gob.NewEncoder(&out).Encode(v); err != nil {
		panic(err) // of plain values only, into memory
	}
	return out.Bytes()
}

func recall[T any](data []byte, take func(*T) bool) error {
	var v T
	if len(data) > maxPart {
		return errPart
	}
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&v); err != nil {
		return fmt.Errorf("%w: %w", errPart, err)
	}
	if !take(&v) {
		return errPart
	}
	return nil
}

const seenVersion = 1

// A period's form: version, seed, the period's number, room of the last layer, and
// the layers, little-endian.
const seenHead = 1 + 8 + 8 + 8

// encode returns what was seen in the current period (0) or the one before it (1).
func (s *seen) encode(period int, seed uint64) []byte {
	b, turn := &s.now, s.turn
	if period == 1 {
		b, turn = &s.before, s.turn-1
	}
	out := append(make([]byte, 0, seenHead), seenVersion)
	out = binary.LittleEndian.AppendUint64(out, seed)
	out = binary.LittleEndian.AppendUint64(out, uint64(turn))
	out = binary.LittleEndian.AppendUint64(out, uint64(b.room))
	for _, layer := range b.layers {
		for _, w := range layer {
			out = binary.LittleEndian.AppendUint64(out, w)
		}
	}
	return out
}

// decode takes up a period. Of two that were written on either side of a turn both
// have their place; one that is older than that is forgotten.
func (s *seen) decode(data []byte, seed uint64) error {
	if len(data) < seenHead || data[0] != seenVersion || binary.LittleEndian.Uint64(data[1:]) != seed {
		return errPart
	}
	turn := int64(binary.LittleEndian.Uint64(data[9:]))
	b := bloom{room: int(int64(binary.LittleEndian.Uint64(data[17:])))}
	for data = data[seenHead:]; len(data) > 0; {
		layer := make([]uint64, bloomWords(len(b.layers)))
		if len(data) < 8*len(layer) || len(b.layers) > bloomMost {
			return errPart
		}
		for i := range layer {
			layer[i], data = binary.LittleEndian.Uint64(data), data[8:]
		}
		b.layers = append(b.layers, layer)
	}
	switch {
	case turn > s.turn:
		before := bloom{}
		if turn == s.turn+1 {
			before = s.now
		}
		s.turn, s.now, s.before = turn, b, before
	case turn == s.turn:
		s.now = b
	case turn == s.turn-1:
		s.before = b
	}
	return nil
}

// keptAccounts are those that are guessed at most.
type keptAccounts struct {
	Seed     uint64 // of the pairs that tell how many sources there are
	Upto     int64
	Accounts []keptGuessed
}

type keptGuessed struct {
	Account            string
	Days               [accountDays]uint16
	Last, First        int64
	Sources            int
	Lead               netip.Prefix
	LeadVotes, LeadDay int
	LeadFirst          int64
	Told               [Finds]int64
}

// partKept is how many accounts, and how many passwords, are in a part.
const partKept = 2048

// mostCounted are those of list that were counted most, up to partKept. Of equal ones
// those come first whose names do, so that the same events always leave the same.
func mostCounted[T any](list []T, of func(*T) (name string, counts []uint16)) []T {
	slices.SortFunc(list, func(x, y T) int {
		a, as := of(&x)
		b, bs := of(&y)
		return cmp.Or(cmp.Compare(total(bs), total(as)), strings.Compare(a, b))
	})
	return list[:min(len(list), partKept)]
}

func total(counts []uint16) (n int) {
	for _, c := range counts {
		n += int(c)
	}
	return n
}

func (a *Accounts) kept() *keptAccounts {
	k := &keptAccounts{Upto: a.last}
	for name, g := range a.at {
		k.Accounts = append(k.Accounts, keptGuessed{name, g.days, g.last, g.first, g.sources, g.lead, g.leadVotes, g.leadDay, g.leadFirst, g.told})
	}
	k.Accounts = mostCounted(k.Accounts, func(g *keptGuessed) (string, []uint16) { return g.Account, g.Days[:] })
	return k
}

func (a *Accounts) recall(k *keptAccounts) bool {
	if len(k.Accounts) > partKept {
		return false
	}
	a.upto = k.Upto
	for _, g := range k.Accounts {
		a.at[g.Account] = &guessed{g.Days, g.Last, g.First, g.Sources, g.Lead, g.LeadVotes, g.LeadDay, g.LeadFirst, g.Told}
	}
	return true
}

// keptSpray are the passwords that are tried most.
type keptSpray struct {
	Upto, From int64
	Failed     [24]int
	FailedLast int64
	Tags       []keptSprayed
}

type keptSprayed struct {
	Tag           string
	Hours         [48]uint16
	Last, Flagged int64
}

func (s *Spray) kept() *keptSpray {
	k := &keptSpray{Upto: s.last, From: s.from, Failed: s.failed.hours, FailedLast: s.failed.last}
	for tag, t := range s.tags {
		k.Tags = append(k.Tags, keptSprayed{tag, t.hours, t.last, t.flagged})
	}
	k.Tags = mostCounted(k.Tags, func(t *keptSprayed) (string, []uint16) { return t.Tag, t.Hours[:] })
	return k
}

func (s *Spray) recall(k *keptSpray) bool {
	if len(k.Tags) > partKept {
		return false
	}
	s.upto, s.from, s.failed = k.Upto, k.From, dayCount{k.Failed, k.FailedLast}
	for _, t := range k.Tags {
		x := &sprayed{hours: t.Hours, last: t.Last, flagged: t.Flagged}
		x.today = x.sum(x.last, 0)
		s.tags[t.Tag] = x
	}
	return true
}
