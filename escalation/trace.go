package escalation

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/trace"
)

// Trace is what is known of an attempt beside its decision, for events. It is
// sealed into the attempt, so that the event of its outcome can say it again.
type Trace struct {
	// AttemptID and DeviceID are the identities that are sealed in the attempt
	// and in the device token that was shown (of a success: that was minted);
	// zero where there is none. Only their hashes (HashID) may leave the process.
	AttemptID, DeviceID [16]byte
	// ProofID is the identity of the proof that was shown with the attempt, whether
	// it counted or not; zero where none was, or none of ours. It is not sealed.
	ProofID     [16]byte
	KnownDevice bool // the device's own bucket decided
	Familiar    bool // the account has signed in from this address
	Breached    bool // said with the attempt or the report
	// Tag is the password tag under the key of the attempt's UTC day, TagBefore
	// under that of the day before; zero where none was given. TagBefore is
	// sealed into a Repeat only.
	Tag, TagBefore Tag
	// Repeat: the password had been wrong for the account within a day, so the
	// attempt took nothing (keys.Answer.Repeat). Not for visitors.
	Repeat  bool
	UAClass string // one of UAClasses
	// Name is the account's name, sealed (Guard.AccountName opens it); "" unless the
	// realm has names told.
	Name string
	// Quiet: the realm wants no events.
	Quiet bool
	// Request is which request of its caller's trace asked or reported; zero: of none.
	Request trace.ID
}

// HashID is how the identity of an attempt or a device is shown. It is 128
// random bits, so their hash tells nothing of them.
func HashID(id [16]byte) string {
	var b [24]byte
	copy(b[copy(b[:], "guardd 1"):], id[:])
	sum := sha256.Sum256(b[:])
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Tag is a password tag hashed with a key that lasts a day: it can be compared
// with the tags of that day and with nothing else.
type Tag = keys.Tag

// tagger hashes password tags. The day's keys come of the realm's pepper, so
// that all instances have the same, and are kept ready, because deriving one
// costs more than using it.
type tagger struct {
	secret []byte
	day    atomic.Pointer[tagDay]
}

// tagDay are the keys of one UTC day and of the day before.
type tagDay struct {
	day  int64
	macs [2]*sync.Pool
}

// tags hashes a tag as of now; of an empty one, zeroes.
func (t *tagger) tags(tag string, now int64) (today, before Tag) {
	if tag == "" {
		return
	}
	day := now / keys.Day
	d := t.day.Load()
	if d == nil || d.day != day {
		d = &tagDay{day: day}
		for i := range d.macs {
			m := hmac.New(sha256.New, t.secret)
			m.Write(strconv.AppendInt(nil, day-int64(i), 10))
			key := m.Sum(nil)
			d.macs[i] = &sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}
		}
		t.day.Store(d)
	}
	tag = strings.ToLower(tag)
	return d.hash(0, tag), d.hash(1, tag)
}

func (d *tagDay) hash(i int, tag string) Tag {
	m := d.macs[i].Get().(hash.Hash)
	defer d.macs[i].Put(m)
	m.Reset()
	m.Write([]byte(tag))
	var sum [sha256.Size]byte
	return Tag(m.Sum(sum[:0])[:len(Tag{})])
}

// trace is what is known before the decision.
func (v *visit) trace(now int64) Trace {
	t := Trace{ProofID: v.shown.id, Breached: v.a.PasswordBreached, UAClass: UAClass(v.a.UserAgent), Quiet: v.realm.quiet, Request: v.traced.Name()}
	t.Tag, t.TagBefore = v.realm.tagger.tags(v.a.PasswordTag, now)
	if v.device != nil {
		t.DeviceID = v.device.id
	}
	t.Name = v.realm.names.seal(v.name, v.account)
	return t
}

// trace is what the attempt's own said.
func (t *attemptToken) trace(quiet bool) Trace {
	return Trace{AttemptID: t.id, DeviceID: t.deviceID, KnownDevice: t.device, Familiar: t.familiar,
		Breached: t.breached, Tag: t.tag, TagBefore: t.tagBefore, Repeat: t.repeat, UAClass: uaAt(t.ua), Quiet: quiet}
}

// tagText is a tag as events have it; "" for none.
func tagText(t Tag) string {
	if t == (Tag{}) {
		return ""
	}
	return hex.EncodeToString(t[:])
}

// wrongKey is where the account's wrong passwords are, "" where there is no tag or
// what is guessed at is no password: the same wrong code may be the right one in
// half a minute.
func wrongKey(flow string, tag Tag, of keys.Visitor) string {
	if flow != DefaultFlow || tag == (Tag{}) {
		return ""
	}
	return of.Wrong()
}
