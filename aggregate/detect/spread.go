package detect

// spread learns how much wider than a Poisson's a count scatters, from
// deviations in Poisson standard deviations: by their median, so that a few
// wild ones say nothing.
type spread struct {
	seen  []float64
	every int
	value float64
}

// newSpread learns anew from every so many deviations.
func newSpread(every int) spread { return spread{every: every, value: 1.5} }

func (s *spread) add(z float64) {
	s.seen = append(s.seen, max(z, -z))
	if len(s.seen) < s.every {
		return
	}
	m := 1.4826 * median(s.seen) // of a normal distribution this is the standard deviation
	s.value += 0.1 * (m*m - s.value)
	s.seen = s.seen[:0]
}

// factor is by how much a variance is larger; never less than a Poisson's.
func (s *spread) factor() float64 { return clamp(s.value, 1, 20) }
