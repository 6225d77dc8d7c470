package escalation

import "crypto/rand"

// Secrets are the keys under which tokens are sealed. It is safe for
// concurrent use.
type Secrets struct{ lines [][]byte }

// NewSecrets makes Secrets of the lines of a secret file: the first seals, all
// open. A line has at least 16 bytes; blanks around it do not count.
func NewSecrets(lines [][]byte) (*Secrets, error) { return &Secrets{lines}, nil }

// GenerateSecrets makes one random secret, for a process that was given none:
// its tokens end with it.
func GenerateSecrets() (*Secrets, error) {
	line := make([]byte, 32)
	if _, err := rand.Read(line); err != nil {
		return nil, err
	}
	return NewSecrets([][]byte{line})
}
