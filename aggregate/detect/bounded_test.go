package detect

import (
	"encoding/binary"
	"net/netip"
	"runtime"
	"strconv"
	"testing"
)

// Of a realm's 64 MiB the aggregator's own part takes up to 40; what detects has the
// rest, whoever comes: everything about each sight is new, and every password is
// tried at enough accounts to be called sprayed.
func TestADetectorHasABound(t *testing.T) {
	measure := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := measure()
	d := New(1)
	at := int64(1_800_000_000_000_000)
	for i := range 200_000 {
		var ip [4]byte
		binary.BigEndian.PutUint32(ip[:], uint32(i)*2654435761) // each once
		a := netip.AddrFrom4(ip)
		tag := strconv.Itoa(i / 30)
		s := Sight{At: at, Class: Cold, Account: strconv.Itoa(i), Source: netip.PrefixFrom(a, 32), Wide: netip.PrefixFrom(a, 24).Masked(),
			Tag: tag, TagBefore: "b" + tag, Stranger: true, Unknown: i%3 == 0, Breached: true}
		if i%50 == 0 {
			s.Class = Success
		}
		d.See(&s)
		b := Bin{Start: BinStart(at)}
		b.Observe(&s)
		if i%100 == 0 {
			d.Step(&b)
			at += Width
		}
	}
	used := int64(measure()-before) >> 20
	t.Logf("a detector takes %d MiB; %d suspects, %d sprayed passwords", used, len(d.suspects), len(d.tags))
	if used > 24 {
		t.Errorf("a detector takes %d MiB", used)
	}
	runtime.KeepAlive(d)
}

// TestTheLargestStateCanBeKept: what is too large to be written would be lost with
// the process, in the middle of the largest attack.
func TestTheLargestStateCanBeKept(t *testing.T) {
	const hash = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	d := New(1)
	for i := range campaignsOpen { // a sprayed password has a campaign
		d.tags[hash[:60]+strconv.Itoa(i)] = monday
	}
	for i := range suspectsMost {
		d.suspects[netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 15: byte(i)}), 64)] = monday
	}
	for i := range campaignsOpen {
		k := d.Campaigns.of(FindHammer.String(), hash+" "+strconv.Itoa(i), monday, monday)
		for j := range samples {
			k.sample(hash + strconv.Itoa(j))
		}
		for j := range 3 * groups {
			k.groups([]Group{{Kind: GroupTag, Key: hash + strconv.Itoa(j), Minute: 1.23456789, Account: hash}})
		}
		for range 2 * actions {
			k.did(monday, "suspect 2001:db8:1234:5678::/64")
		}
	}
	data := d.Save()
	t.Logf("%d KiB", len(data)>>10)
	if len(data) > maxState {
		t.Errorf("the largest state has %d bytes, %d can be kept", len(data), maxState)
	}
	if _, err := Restore(1, data); err != nil {
		t.Error(err)
	}
}
