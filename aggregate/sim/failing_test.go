package sim

import (
	"slices"
	"testing"

	"github.com/guardd/guardd/aggregate/detect"
)

// TestStrangersFailAsPeopleDo: so often in the mean, from networks that are new
// once, with one browser each; and no failure is lost on its way through the
// bins.
func TestStrangersFailAsPeopleDo(t *testing.T) {
	const odds, bins = 1.2, 30_000
	r := newRandom(1, 1)
	var f failing
	strangers, fresh := 0, 0
	all := make([]detect.Bin, bins)
	for i := range all {
		n := r.poisson(2)
		strangers += n
		f.begin(r, n, odds, HonestNewNetwork)
		b := f.next()
		all[i].Count[detect.Cold], all[i].UA = b.n, b.ua
		fresh += b.fresh
	}
	sum := sumOf(all)
	agents := 0
	for _, n := range sum.UA {
		agents += n
	}
	if agents != sum.Failed() {
		t.Errorf("%d user agents of %d failures", agents, sum.Failed())
	}
	// All but one of 2,000 people are in before the last of their tries.
	within(t, "failures a stranger", float64(sum.Failed())/float64(strangers), 0.96*odds, 1.01*odds)
	within(t, "new networks", float64(fresh)/float64(sum.Failed()), 0.97*HonestNewNetwork, 1.04*HonestNewNetwork)
	app := slices.Index(classes, "app")
	within(t, "applications", float64(sum.UA[app])/float64(sum.Failed()), 0.95*HonestUA["app"], 1.05*HonestUA["app"])
	// People who fail k times, each with probability odds/(1+odds) again, make
	// counts scatter by 1 + 2 x odds: a sum of geometric ones.
	within(t, "scatter of user agents", agentScatter(all), 0.8*(1+2*odds), 1.1*(1+2*odds))
}
