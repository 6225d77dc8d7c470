package oracle

// Slots is what acquiring and releasing slots should come to: a list of who has a
// place until when, of each set.
type Slots struct{ sets map[string][]slot }

type slot struct {
	id      string
	expires int64
}

// NewSlots is one in which nothing is occupied.
func NewSlots() *Slots { return &Slots{sets: map[string][]slot{}} }

// SlotAsk asks for a place in each set, or in none.
type SlotAsk struct {
	Now         int64
	Sets        []string
	Caps, Lives []int64
	TTL         int64
	ID          string
}

// SlotAnswer is what it came to.
type SlotAnswer struct {
	Allowed, Renewed bool
	InUse            []int64
	Expires          int64
	Freed            int // places that had expired
}

// Acquire decides.
func (s *Slots) Acquire(a SlotAsk) (ans SlotAnswer) {
	room, has := true, true
	for i, set := range a.Sets {
		var live []slot
		for _, x := range s.sets[set] {
			x.expires = min(x.expires, a.Now+a.Lives[i])
			if x.expires > a.Now {
				live = append(live, x)
			} else {
				ans.Freed++
			}
		}
		s.sets[set] = live
		if !s.has(set, a.ID) {
			has = false
			room = room && int64(len(live)) < a.Caps[i]
		}
	}
	ans.Allowed, ans.Renewed = has || room, has
	for i, set := range a.Sets {
		if ans.Allowed {
			until := a.Now + min(a.TTL, a.Lives[i])
			s.drop(set, a.ID)
			s.sets[set] = append(s.sets[set], slot{a.ID, until})
			if ans.Expires == 0 || until < ans.Expires {
				ans.Expires = until
			}
		}
		ans.InUse = append(ans.InUse, int64(len(s.sets[set])))
	}
	return ans
}

func (s *Slots) has(set, id string) bool {
	for _, x := range s.sets[set] {
		if x.id == id {
			return true
		}
	}
	return false
}

// drop takes id's place away and returns when it would have expired.
func (s *Slots) drop(set, id string) (expires int64) {
	for i, x := range s.sets[set] {
		if x.id == id {
			s.sets[set] = append(append([]slot(nil), s.sets[set][:i]...), s.sets[set][i+1:]...)
			return x.expires
		}
	}
	return 0
}

// Release frees id's places, and reports whether there was any.
func (s *Slots) Release(now int64, sets []string, id string) (any bool) {
	for _, set := range sets {
		any = s.drop(set, id) > now || any
	}
	return any
}
