package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	svg := flag.String("svg", "", "`file` to draw to")
	seed := flag.Uint64("seed", 1, "of the story's chances")
	flag.Parse()
	all := map[string][]Second{}
	for _, p := range Protections {
		s, err := Run(p, *seed)
		if err != nil {
			fail(err)
		}
		all[p.Name] = s
	}
	table(os.Stdout, all)
	if *svg != "" {
		if err := os.WriteFile(*svg, Draw(all), 0o644); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "search:", err)
	os.Exit(1)
}

// Share is how much of what was asked in [from, to) was answered in time, in
// percent; critical only, or all.
func Share(s []Second, from, to int, critical bool) float64 {
	asked, answered := 0, 0
	for _, x := range s[from:to] {
		if critical {
			asked, answered = asked+x.CriticalAsked, answered+x.CriticalAnswered
		} else {
			asked, answered = asked+x.Asked, answered+x.Answered
		}
	}
	return 100 * float64(answered) / float64(max(asked, 1))
}

func table(out io.Writer, all map[string][]Second) {
	fmt.Fprintf(out, "answered in time, of what the others asked (and of what was critical)\n%-31s", "")
	for _, m := range []string{"calm", "3 greedy", "after", "5 of 8 lost", "after"} {
		fmt.Fprintf(out, "%15s", m)
	}
	fmt.Fprintln(out)
	for _, p := range Protections {
		fmt.Fprintf(out, "%-31s", p.Name)
		for m := range scenes {
			fmt.Fprintf(out, "%7.1f%% (%3.0f%%)", Share(all[p.Name], scene*m, scene*(m+1), false), Share(all[p.Name], scene*m, scene*(m+1), true))
		}
		fmt.Fprintln(out)
	}
}
