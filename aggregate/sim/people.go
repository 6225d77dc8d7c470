package sim

import (
	"fmt"
	"net/netip"
	"strconv"
)

// person is one of the site's accounts. Who they are follows from their number,
// so that only what happened to them is kept.
type person struct {
	n      int
	device string // token of the browser at home
	warm   bool   // signed in before the simulation
}

// people are a site's accounts.
type people struct {
	r      random
	n      int
	perDay float64
	known  map[int]*person
}

func newPeople(perDay float64, seed int64) *people {
	return &people{r: newRandom(seed, 11), n: max(1, int(perDay*Active)), perDay: perDay, known: map[int]*person{}}
}

func (p *people) of(n int) *person {
	who := p.known[n]
	if who == nil {
		who = &person{n: n}
		p.known[n] = who
	}
	return who
}

func (p *people) any() *person { return p.of(p.r.IntN(p.n)) }

func (w *person) name() string { return "user" + strconv.Itoa(w.n) }

// password is a text that stands for it.
func (w *person) password() string { return "right" + strconv.Itoa(w.n) }

// Addresses: offices have one each, everybody else a home of their own, of 32
// to a /24; 20.0.0.0 to 99.255.255.255 are homes, 160.0.0.0 to 199.255.255.255 new.
func (w *person) home(offices int) netip.Addr {
	if w.n%1000 < int(OfficeShare*1000) {
		return officeAddress(w.n / 1000 % max(offices, 1))
	}
	return homeAddress(w.n)
}

func homeAddress(n int) netip.Addr {
	net, host := n/32, n%32
	return netip.AddrFrom4([4]byte{byte(20 + net>>16%80), byte(net >> 8), byte(net), byte(100 + host)})
}

func officeAddress(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(110 + n>>16), byte(n >> 8), byte(n), 1})
}

// offices is how many there are.
func (p *people) offices() int { return max(1, int(float64(p.n)*OfficeShare/OfficePeople)) }

// elsewhere is an address that is not the person's: in a network that the site
// knows, or in a new one.
func elsewhere(r random, people int, fresh float64) netip.Addr {
	if r.Float64() < fresh {
		return newAddress(r)
	}
	a := homeAddress(r.IntN(people)).As4()
	a[3] = byte(1 + r.IntN(99)) // a hotel's, beside the homes
	return netip.AddrFrom4(a)
}

func newAddress(r random) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(160 + r.IntN(40)), byte(r.IntN(256)), byte(r.IntN(256)), byte(1 + r.IntN(254))})
}

// agent draws a user agent of that mix, as a text that escalation.UAClass knows.
func agent(r random, mix map[string]float64) string { return agentTexts[classes[pick(r, mix)]] }

// pick draws the place of a class of user agent.
func pick(r random, mix map[string]float64) int {
	x := r.Float64()
	for i, c := range classes {
		if x -= mix[c]; x < 0 {
			return i
		}
	}
	return len(classes) - 1
}

// agentTexts are texts of each class.
var agentTexts = map[string]string{
	"bot": "Bot/1.0 (+http://example.com)", "script": "python-requests/2.31", "app": "okhttp/4.9", "edge": "Edg/120.0",
	"opera": "OPR/106.0", "samsung": "SamsungBrowser/23.0", "firefox": "Firefox/121.0", "chrome": "Chrome/120.0",
	"safari": "Safari/605.1", "none": "", "other": "Something/1.0",
}

// wrong is a password that is not the account's.
func wrong(r random) string { return fmt.Sprintf("wrong%d", r.Int64()) }

// common is one of a dictionary's, the first ones most often.
func common(r random) string {
	const words = 1000
	// Zipf's law by inversion: the nth is tried 1/n as often as the first.
	n := int(float64(words+1) * (1 - r.Float64()))
	for n > 1 && r.Float64() < 0.5 {
		n /= 2
	}
	return fmt.Sprintf("common%d", n)
}

// scanAddress is one of those that scan all year: of networks that are known for it.
func scanAddress(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{150, byte(n >> 16), byte(n >> 8), byte(n)})
}
