package aggregate

import "github.com/go-json-experiment/json"

// sealedNames are the sealed names of accounts that were seen of late, by hash, for
// the findings of realms that have names told; of other realms there are none. Two
// halves: when one is full, the one before it is dropped.
type sealedNames struct{ now, before map[string]string }

// namesKept is a half, of some 150 bytes each.
const namesKept = 32768

func (n *sealedNames) keep(e *Event) {
	if e.Name == "" {
		return
	}
	if n.now == nil || len(n.now) >= namesKept {
		n.before, n.now = n.now, make(map[string]string)
	}
	n.now[e.Account] = e.Name
}

// fill puts the names of a finding's samples in it.
func (n *sealedNames) fill(finding []byte) []byte {
	var f Finding
	if n.now == nil || json.Unmarshal(finding, &f) != nil {
		return finding
	}
	for _, hash := range f.Samples {
		name := n.now[hash]
		if name == "" {
			name = n.before[hash]
		}
		if name == "" {
			continue
		}
		if f.Names == nil {
			f.Names = map[string]string{}
		}
		f.Names[hash] = name
	}
	if f.Names == nil {
		return finding
	}
	out, err := f.AppendTo(nil)
	if err != nil {
		return finding
	}
	return out
}
