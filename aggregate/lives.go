package aggregate

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
)

// lives is a file beside the spool that holds, at every moment, how many events
// of each realm this process has made. It is mapped into memory, so writing to
// it costs what a store costs, and what was written outlives the process,
// however that ends. The next one reads it, and says how far the count had got.
//
// Its form: instance (16 bytes), then maxLives slots of a realm's name (64,
// padded with zeroes) and its count (8, little-endian).
type lives struct {
	path   string
	mapped []byte // nil where the system cannot, or nobody spools
	named  int    // slots that have a name
	unmap  func() error
}

const (
	maxLives   = 512 // realms; what is beyond has no count after a kill
	lifeName   = 64
	lifeSlot   = lifeName + 8
	lifeHead   = 16
	livesBytes = lifeHead + maxLives*lifeSlot
)

// life is what an earlier process had counted.
type life struct {
	instance, realm string
	seq             uint64
}

// openLives returns what the last process in dir left when it was killed, and
// begins anew for this one once done has succeeded.
func openLives(dir, instance string, done func([]life) error) (*lives, error) {
	l := &lives{path: filepath.Join(dir, "count")}
	if b, err := os.ReadFile(l.path); err == nil && len(b) == livesBytes {
		if err := done(readLives(b)); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(livesBytes); err != nil {
		return nil, err
	}
	if l.mapped, l.unmap, err = mapFile(f, livesBytes); err != nil {
		return nil, err
	}
	copy(l.mapped, instance)
	return l, nil
}

func readLives(b []byte) (all []life) {
	instance := string(b[:lifeHead])
	for slot := b[lifeHead:]; len(slot) >= lifeSlot; slot = slot[lifeSlot:] {
		realm := strings.TrimRight(string(slot[:lifeName]), "\x00")
		if seq := binary.LittleEndian.Uint64(slot[lifeName:]); realm != "" && seq > 0 {
			all = append(all, life{instance, realm, seq})
		}
	}
	return all
}

// mark notes a realm's count. Its caller sees to it that only one does.
func (l *lives) mark(realm string, slot int, seq uint64) {
	if l == nil || l.mapped == nil || slot >= maxLives {
		return
	}
	at := l.mapped[lifeHead+slot*lifeSlot:]
	if slot >= l.named {
		copy(at[:lifeName], realm)
		l.named = slot + 1
	}
	binary.LittleEndian.PutUint64(at[lifeName:], seq)
}

// close takes the file away: the process has ended its counts itself. Nobody may
// mark any more.
func (l *lives) close() error {
	if l == nil || l.mapped == nil {
		return nil
	}
	l.mapped = nil
	if err := l.unmap(); err != nil {
		return err
	}
	return os.Remove(l.path)
}
