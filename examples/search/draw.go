package main

import (
	"bytes"
	"fmt"
	"math"
)

// The picture: what was answered in time above, how many wait below (by powers of
// ten), each as means of two seconds.
const (
	width, high, low    = 760.0, 190.0, 110.0
	left, top, between  = 60.0, 46.0, 40.0
	step                = 2 // seconds
	mostQueue           = 6 // powers of ten
	legendLine, fontPix = 16.0, 12
)

var colours = []string{"#c0392b", "#d68910", "#1e8449"}

// Draw returns an SVG.
func Draw(all map[string][]Second) []byte {
	var b bytes.Buffer
	bottom := top + high + between
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="%d">`+"\n",
		left+width+20, bottom+low+60, fontPix)
	b.WriteString(`<title>A search backend behind three protections: requests answered in time, and requests that wait</title>` + "\n")
	b.WriteString(`<rect width="100%" height="100%" fill="#fff"/>` + "\n")
	for m, says := range []string{"", "three callers ask for reports", "", "five of eight workers are lost", ""} {
		if x := left + width*float64(m)/scenes; says != "" {
			fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="#f2f3f4"/>`+"\n", x, top, width/scenes, high+between+low)
			fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="#566573" font-size="11">%s</text>`+"\n", x+width/scenes/2, top-6, says)
		}
	}
	for _, share := range []float64{0, 25, 50, 75, 100} {
		rule(&b, top+high*(1-share/100), fmt.Sprintf("%.0f%%", share))
	}
	for power := 0; power <= mostQueue; power += 2 {
		rule(&b, bottom+low*(1-float64(power)/mostQueue), fmt.Sprintf("%.0f", math.Pow10(power)))
	}
	text := func(y float64, s string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" fill="#17202a">%s</text>`+"\n", left+4, y, s)
	}
	text(top+high-8, "answered in time, of what the 17 others asked")
	text(bottom+26, "requests that wait")
	for i, p := range Protections {
		s := all[p.Name]
		line(&b, colours[i], s, func(w []Second) float64 { return top + high*(1-Share(w, 0, len(w), false)/100) })
		line(&b, colours[i], s, func(w []Second) float64 {
			q := 0
			for _, x := range w {
				q = max(q, x.Queue)
			}
			return bottom + low*(1-math.Log10(float64(max(q, 1)))/mostQueue)
		})
		x := left + width*float64(i)/float64(len(Protections))
		y := bottom + low + 36
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="18" height="3" fill="%s"/><text x="%.1f" y="%.1f">%s</text>`+"\n", x, y, colours[i], x+24, y+5, p.Name)
	}
	for m := range scenes + 1 {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="#566573">%d s</text>`+"\n", left+width*float64(m)/scenes, bottom+low+legendLine, m*scene)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func rule(b *bytes.Buffer, y float64, says string) {
	fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#d5d8dc"/><text x="%.1f" y="%.1f" text-anchor="end" fill="#566573">%s</text>`+"\n",
		left, left+width, y, y, left-6, y+4, says)
}

func line(b *bytes.Buffer, colour string, s []Second, y func([]Second) float64) {
	fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="2" points="`, colour)
	for i := 0; i+step <= len(s); i += step {
		fmt.Fprintf(b, "%.1f,%.1f ", left+width*(float64(i)+step/2.0)/float64(len(s)), y(s[i:i+step]))
	}
	b.WriteString(`"/>` + "\n")
}
