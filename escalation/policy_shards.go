package escalation

import (
	"slices"
	"strings"
)

// shared reports whether many accounts draw on one bucket of the tier, so that
// each shard of the realm has a sub-bucket of it.
func shared(tier string) bool { return slices.Contains([]string{"ip", "network", "global"}, tier) }

// checkShards reports rows of a valid table whose sub-buckets would be too
// small, or whose rungs could not show in them. path is that of the number of
// shards: with fewer the same rows are good.
func (f *Flow) checkShards(shards int, name, path string, faults *Faults) {
	if shards == 1 || len(*faults) > 0 {
		return
	}
	for i := range f.Limits {
		l, on := f.row(i)
		limit, err := l.limit()
		if !on || err != nil || limit.Zero() || !shared(l.Tier) {
			continue
		}
		part, err := limit.Sub(int64(shards))
		if err != nil {
			faults.Add(path, "%d: %v of %s %s (%d) in flow %s", shards, err, l.Tier, l.Name, limit.Capacity, name)
			continue
		}
		hidden := &Faults{}
		l.checkRungs(part, "", hidden)
		for _, h := range *hidden {
			faults.Add(path, "%d: of %s %s in flow %s, in one shard, %s %s", shards, l.Tier, l.Name, name, strings.TrimPrefix(h.Field, "."), h.Reason)
		}
	}
}
