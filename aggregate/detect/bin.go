package detect

// Width is how long a Bin is, in microseconds: short enough that an attack is
// seen within a minute, long enough that a busy realm's bins cost nothing.
const Width = 10_000_000

// Groups is how many classes of user agent a Bin can tell apart; more than
// escalation.UAClasses has.
const Groups = 16

// Bin is what happened in a realm within Width from Start. Counts add up: bins
// of one start from several readers are summed.
type Bin struct {
	Start int64 // a multiple of Width

	// Count by Class.
	Count [Classes]int

	// Solved is how many of the Unsolved, of this bin or of an earlier one, went
	// on with a proof after all. Without it honest visitors who solve what they
	// are asked would look like an attack that makes itself heavier.
	Solved int
	// NotChecked is outcomes of which no password was compared, because the
	// service behind was down.
	NotChecked int
	// Taken and Given are the tokens of the global tier: attempts let through from
	// unknown devices in unfamiliar places, and such of them as were given back.
	Taken, Given int

	// Structure: how many of the cold failures (Cold and Unsolved) ...
	Unknown    int         // ... named an account that does not exist; of Cold only
	NewNetwork int         // ... came from a network not seen in 14 days
	NewAccount int         // ... were the account's first for a day; of Cold only
	Breached   int         // ... tried a password that is known to have leaked
	UA         [Groups]int // ... claimed that class of user agent
}

// BinStart is the start of the bin that holds at.
func BinStart(at int64) int64 { return at - mod(at, Width) }

// Observe counts s in b. Sights of an outcome that lies in the past of a
// reader belong to the bin of their own time, not of their arrival.
func (b *Bin) Observe(s *Sight) {
	b.Count[s.Class]++
	if !s.Class.Failed() {
		return
	}
	b.Unknown += one(s.Unknown)
	b.NewNetwork += one(s.NewNetwork)
	b.NewAccount += one(s.NewAccount)
	b.Breached += one(s.Breached)
	b.UA[s.UA%Groups]++
}

// Add adds the counts of o.
func (b *Bin) Add(o *Bin) {
	for i, n := range o.Count {
		b.Count[i] += n
	}
	b.Solved += o.Solved
	b.NotChecked += o.NotChecked
	b.Taken += o.Taken
	b.Given += o.Given
	b.Unknown += o.Unknown
	b.NewNetwork += o.NewNetwork
	b.NewAccount += o.NewAccount
	b.Breached += o.Breached
	for i, n := range o.UA {
		b.UA[i] += n
	}
}

// Failed is the statistic that everything rests on: cold failures, those that
// never got as far as the password with them. Without these an attack would
// seem to end as soon as it is answered.
func (b *Bin) Failed() int { return max(0, b.Count[Cold]+b.Count[Unsolved]-b.Solved) }

func one(v bool) int {
	if v {
		return 1
	}
	return 0
}

// mod is a modulo m, from 0 to m-1 also where a is negative.
func mod(a, m int64) int64 { return ((a % m) + m) % m }
