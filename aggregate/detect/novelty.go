package detect

// Novelty says of a sight what was never seen before.
type Novelty struct {
	hash     hasher
	networks seen // 14 days
	accounts seen // a day
}

// NewNovelty has seen nothing. seed is a secret of the process.
func NewNovelty(seed uint64) *Novelty {
	return &Novelty{hash: hasher{seed}, networks: seen{period: 14 * day}, accounts: seen{period: day}}
}

// Mark sets NewNetwork and NewAccount of s. Every sight is shown to it:
// networks are those that anybody came from.
func (n *Novelty) Mark(s *Sight) {
	s.NewNetwork = !n.networks.add(s.At, n.hash.prefix(s.Wide))
	if s.Class.Failed() {
		// Who is refused has tried the account, too: else all that were refused for a
		// sprayed password would look new once it is midnight and the tag another.
		before := n.accounts.add(s.At, n.hash.text(s.Account))
		s.NewAccount = s.Class == Cold && !before
	}
}
