package detect

import (
	"fmt"
	"net/netip"
	"testing"
)

// BenchmarkSee is what a sight costs in the floods that detection is there for:
// of everything new, of passwords that each climb to be counted, of few
// accounts from everywhere.
func BenchmarkSee(b *testing.B) {
	for _, f := range []struct {
		name string
		make func(i int) (account, tag string, source int)
	}{
		{"everything new", func(i int) (string, string, int) { return fmt.Sprint("a", i), fmt.Sprintf("%016x", i), i }},
		{"passwords that climb", func(i int) (string, string, int) { return fmt.Sprint("a", i), fmt.Sprintf("%016x", i/5), i }},
		{"accounts that climb", func(i int) (string, string, int) { return fmt.Sprint("a", i/6), fmt.Sprintf("%016x", i), i }},
		{"one password", func(i int) (string, string, int) { return fmt.Sprint("a", i), "0123456789abcdef", i % 8000 }},
		{"one account", func(i int) (string, string, int) { return "a", fmt.Sprintf("%016x", i), i % 8000 }},
	} {
		b.Run(f.name, func(b *testing.B) {
			const many = 1 << 18
			sights := make([]Sight, many)
			for i := range sights {
				account, tag, n := f.make(i)
				ip := netip.AddrFrom4([4]byte{byte(1 + n>>18&63), byte(n >> 10), byte(n >> 2), byte(n << 6)})
				sights[i] = Sight{Class: Cold, Account: account, Tag: tag, Source: netip.PrefixFrom(ip, 32),
					Wide: netip.PrefixFrom(ip, 24).Masked(), UA: uint8(i % 8), Stranger: true}
			}
			d := New(1)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				s := sights[i%many]
				s.At = int64(20000)*day + int64(i)*1000 // a thousand a second
				d.See(&s)
				if i%10_000 == 0 {
					d.Step(&Bin{Start: BinStart(s.At)})
				}
			}
		})
	}
}
