package main

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
)

// The drawing's measures, in pixels.
const (
	width, height = 860, 470
	left, right   = 60, 820
	top, floor    = 50, 290 // of the guesses
	strip         = 14      // of the posture
	top2, floor2  = 350, 430
)

// plot draws an attack minute by minute: what was tried, what was served by the
// limits alone and with detection, the posture, and the honest people asked.
func (m *measured) plot() []byte {
	with, without := threeHours(m.with.Minutes), threeHours(m.without.Minutes)
	p := &plot{from: with[0].From, to: with[len(with)-1].From + 60}
	for _, x := range with {
		p.most = max(p.most, float64(x.Guesses))
		p.asked = max(p.asked, share(x.Asked, x.Honest))
	}
	p.most, p.asked = nice(p.most), max(nice(100*p.asked), 1)

	fmt.Fprintf(&p.b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" role="img" aria-labelledby="t">`+"\n", width, height)
	fmt.Fprintf(&p.b, `<title id="t">%s, seed %d: guesses a minute, and how many of them were served</title>`+"\n", m.with.Scenario, m.with.Seed)
	fmt.Fprintf(&p.b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	p.text(left, 20, "start", "#222", fmt.Sprintf("%s: %s guesses among %s honest logins, seed %d", m.with.Scenario, whole(m.with.Guesses), whole(&m.with.Honest), m.with.Seed))
	p.axis(top, floor, p.most, "a minute", "")
	p.axis(top2, floor2, p.asked, "honest logins asked", " %")
	p.posture(with)
	p.line(with, floor, top, p.most, "#999", "", func(x minute) float64 { return float64(x.Guesses) })
	p.line(without, floor, top, p.most, "#d55e00", "5 3", func(x minute) float64 { return float64(x.Served) })
	p.line(with, floor, top, p.most, "#0072b2", "", func(x minute) float64 { return float64(x.Served) })
	p.line(without, floor2, top2, p.asked, "#d55e00", "5 3", func(x minute) float64 { return 100 * share(x.Asked, x.Honest) })
	p.line(with, floor2, top2, p.asked, "#0072b2", "", func(x minute) float64 { return 100 * share(x.Asked, x.Honest) })
	for i, k := range []struct{ color, dash, text string }{
		{"#999", "", "guesses"}, {"#d55e00", "5 3", "served by the limits alone"}, {"#0072b2", "", "served with detection"},
	} {
		y := top + 16*i + 8
		fmt.Fprintf(&p.b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`+"\n", left+12, y, left+36, y, k.color, k.dash)
		p.text(left+42, y+4, "start", "#222", k.text)
	}
	for at := (p.from + 1799) / 1800 * 1800; at <= p.to; at += 1800 {
		p.text(int(p.x(at)), floor2+18, "middle", "#222", fmt.Sprintf("%+d min", at/60))
	}
	fmt.Fprintln(&p.b, "</svg>")
	return p.b.Bytes()
}

// threeHours is a run without the minutes after its end, in which only those come who
// had begun before: it is as long before the attack, in it, and after it.
func threeHours(all []minute) []minute {
	end := -2 * all[0].From
	return slices.DeleteFunc(slices.Clone(all), func(m minute) bool { return end > 0 && m.From >= end })
}

type plot struct {
	b           bytes.Buffer
	from, to    int // seconds
	most, asked float64
}

func (p *plot) x(at int) float64 {
	return left + float64(at-p.from)/float64(p.to-p.from)*(right-left)
}

func (p *plot) text(x, y int, anchor, color, s string) {
	fmt.Fprintf(&p.b, `<text x="%d" y="%d" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, anchor, color, s)
}

func (p *plot) axis(top, floor int, most float64, name, unit string) {
	for i := range 3 {
		y := floor - (floor-top)*i/2
		fmt.Fprintf(&p.b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#ddd"/>`+"\n", left, y, right, y)
		p.text(left-6, y+4, "end", "#222", fmt.Sprintf("%g%s", most*float64(i)/2, unit))
	}
	p.text(right, top-6, "end", "#222", name)
}

// line is a step for every minute.
func (p *plot) line(all []minute, floor, top int, most float64, color, dash string, value func(minute) float64) {
	var d strings.Builder
	for i, m := range all {
		y := float64(floor) - min(value(m)/most, 1)*float64(floor-top)
		fmt.Fprintf(&d, "%s%.1f %.1fH%.1f", map[bool]string{true: "M", false: "L"}[i == 0], p.x(m.From), y, p.x(m.From+60))
	}
	fmt.Fprintf(&p.b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.6" stroke-dasharray="%s"/>`+"\n", d.String(), color, dash)
}

var postures = [...]struct{ name, color string }{{"", ""}, {"elevated", "#f6e8a8"}, {"high", "#f2c078"}, {"critical", "#e58a7b"}}

// posture is a strip under the guesses; one of more than five minutes has its name.
func (p *plot) posture(all []minute) {
	p.text(left-6, floor+strip, "end", "#222", "posture")
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].Posture == all[i].Posture {
			j++
		}
		if k := all[i].Posture; k > 0 && k < len(postures) {
			from, to := p.x(all[i].From), p.x(all[j-1].From+60)
			fmt.Fprintf(&p.b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", from, floor+4, to-from, strip, postures[k].color)
			if j-i > 10 {
				p.text(int(from+to)/2, floor+strip+1, "middle", "#222", postures[k].name)
			}
		}
		i = j
	}
}

func share(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// nice is the next number that reads well.
func nice(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, k := range []float64{1, 2, 4, 6, 8} {
		if v <= k*unit {
			return k * unit
		}
	}
	return 10 * unit
}
