package escalation

import (
	"encoding/base64"
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/guardd/guardd/keys"
)

// Lifetimes in microseconds, judged by the store's clock.
const (
	challengeLifetime    = 600 * keys.Second
	waitLifetime         = 600 * keys.Second // after not_before
	captchaProofLifetime = 300 * keys.Second
	verifyProofLifetime  = 600 * keys.Second
	// verifyUses is how many guesses a confirmed code lets through: people
	// mistype.
	verifyUses = 5
)

// scope is what every token but a device's is bound to: it is sealed with it
// and compared when it is opened.
type scope struct {
	realm string
	flow  byte // index into Flows
}

func (s scope) write(w *writer) { w.text(s.realm); w.byte(s.flow) }

func readScope(r *reader) scope { return scope{r.text(), r.byte()} }

func idText(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// attemptToken is what an outcome is reported with: who guessed, and what the
// guess took.
type attemptToken struct {
	scope
	id       [16]byte
	account  keys.Account
	ip       keys.Address
	stamp    int64
	born     int64 // what a device that comes of it bears (keys.Answer.Born)
	listed   bool  // on the allow list: no ip and network tiers
	device   bool  // the known device with deviceID was asked about
	breached bool
	degraded bool // answered by the twin of instance
	familiar bool // the account had signed in from ip
	ua       byte // place in UAClasses
	tag      Tag
	// repeat: the password had been wrong before; then tagBefore is its tag of the
	// day before.
	repeat    bool
	tagBefore Tag
	deviceID  [16]byte
	instance  [8]byte
	took      []keys.Took
}

const (
	flagListed = 1 << iota
	flagDevice
	flagBreached
	flagDegraded
	flagFamiliar
	flagTag
	flagRepeat
	flagsEnd
)

func (t *attemptToken) expires() int64 { return t.stamp + keys.AttemptLifetime }

func (t *attemptToken) encode() []byte {
	w := writer{make([]byte, 0, 256)}
	t.write(&w)
	w.raw(t.id[:])
	w.raw(t.account[:])
	w.addr(t.ip.Addr())
	w.num(t.stamp)
	w.num(t.born - t.stamp)
	var flags byte
	for i, on := range []bool{t.listed, t.device, t.breached, t.degraded, t.familiar, t.tag != Tag{}, t.repeat} {
		if on {
			flags |= 1 << i
		}
	}
	w.byte(flags)
	w.byte(t.ua)
	if t.tag != (Tag{}) {
		w.raw(t.tag[:])
	}
	if t.repeat {
		w.raw(t.tagBefore[:])
	}
	if t.device {
		w.raw(t.deviceID[:])
	}
	if t.degraded {
		w.raw(t.instance[:])
	}
	for _, k := range t.took {
		w.byte(byte(k.Tier))
		w.b = binary.LittleEndian.AppendUint32(w.b, k.Limit)
		w.num(k.In.Capacity)
		w.num(k.In.Count)
		w.num(k.In.Period)
	}
	return w.b
}

func decodeAttempt(b []byte) (*attemptToken, bool) {
	r := reader{b: b}
	t := &attemptToken{scope: readScope(&r)}
	t.id, t.account = r.id(), r.id()
	ip := r.addr()
	t.ip = keys.AddressOf(ip)
	t.stamp = r.num()
	t.born = t.stamp + r.num()
	flags := r.byte()
	t.listed, t.device = flags&flagListed != 0, flags&flagDevice != 0
	t.breached, t.degraded = flags&flagBreached != 0, flags&flagDegraded != 0
	t.familiar, t.repeat = flags&flagFamiliar != 0, flags&flagRepeat != 0
	t.ua = r.byte()
	if flags&flagTag != 0 {
		t.tag = Tag(r.raw(len(t.tag)))
		r.bad = r.bad || t.tag == Tag{}
	}
	if t.repeat {
		t.tagBefore = Tag(r.raw(len(t.tagBefore)))
	}
	if t.device {
		t.deviceID = r.id()
	}
	if t.degraded {
		t.instance = [8]byte(r.raw(8))
	}
	for len(r.b) > 0 {
		k := keys.Took{Tier: keys.Tier(r.byte()), Limit: binary.LittleEndian.Uint32(r.raw(4))}
		k.In = keys.Limit{Capacity: r.num(), Count: r.num(), Period: r.num()}
		t.took = append(t.took, k)
		r.bad = r.bad || !k.In.Exact()
	}
	return t, r.done() && ip.IsValid() && flags < flagsEnd && int(t.flow) < len(Flows)
}

// challengeToken is what a refused visitor can do something about. A wait is
// also its own proof from notBefore on, bound to the network it was given to;
// every challenge can be solved by a code. The name is sealed in because a
// code goes to it, and the store has hashes only.
type challengeToken struct {
	scope
	rung      keys.Rung // Delay, Captcha, Verify
	id        [16]byte
	account   keys.Account
	name      string // normalised
	ip        keys.Address
	issued    int64
	born      int64 // what its proof bears (keys.Answer.Born): never before issued
	expires   int64
	wait      int64 // for Delay
	work      int64 // least number of tries of a proof of work; 0: none is offered
	digits    int64 // for Captcha: what the picture shows
	second    bool  // for Captcha: another was solved just before
	returnURL string
}

func (t *challengeToken) notBefore() int64 { return t.issued + t.wait }

// life is for how long what was done with it is remembered.
func (t *challengeToken) life() int64 { return max(t.expires-t.issued, challengeLifetime) }

func (t *challengeToken) encode() []byte {
	w := writer{make([]byte, 0, 256)}
	t.write(&w)
	w.byte(byte(t.rung))
	w.raw(t.id[:])
	w.raw(t.account[:])
	w.text(t.name)
	w.addr(t.ip.Addr())
	w.num(t.issued)
	w.num(t.born - t.issued)
	w.num(t.expires - t.issued)
	w.num(t.work)
	switch t.rung {
	case keys.Delay:
		w.num(t.wait)
	case keys.Captcha:
		// Of a fixed size, or the token's length would tell of the digits.
		w.b = binary.LittleEndian.AppendUint32(w.b, uint32(t.digits)|second(t.second))
	}
	w.text(t.returnURL)
	return w.b
}

// secondBit stands above the digits.
const secondBit = 1 << 31

func second(yes bool) uint32 {
	if yes {
		return secondBit
	}
	return 0
}

func decodeChallenge(b []byte) (*challengeToken, bool) {
	r := reader{b: b}
	t := &challengeToken{scope: readScope(&r), rung: keys.Rung(r.byte()), id: r.id(), account: r.id(), name: r.text()}
	ip := r.addr()
	t.ip = keys.AddressOf(ip)
	t.issued = r.num()
	t.born = t.issued + r.num()
	t.expires = t.issued + r.num()
	t.work = r.num()
	switch t.rung {
	case keys.Delay:
		t.wait = r.num()
	case keys.Captcha:
		n := binary.LittleEndian.Uint32(r.raw(4))
		t.digits, t.second = int64(n&^secondBit), n&secondBit != 0
	}
	t.returnURL = r.text()
	return t, r.done() && ip.IsValid() && t.rung >= keys.Delay && t.rung <= keys.Verify && int(t.flow) < len(Flows)
}

// proofToken is what a solved challenge gave; its id is the challenge's.
type proofToken struct {
	scope
	rung    keys.Rung // Delay (a proof of work in place of a wait), Captcha, Verify
	id      [16]byte
	account keys.Account
	born    int64 // the challenge's
	expires int64
	wait    int64        // for Delay: the wait it stands for
	network netip.Prefix // for Delay: Address.Wide
}

func (t *proofToken) encode() []byte {
	w := writer{make([]byte, 0, 128)}
	t.write(&w)
	w.byte(byte(t.rung))
	w.raw(t.id[:])
	w.raw(t.account[:])
	w.num(t.born)
	w.num(t.expires)
	if t.rung == keys.Delay {
		w.num(t.wait)
		w.addr(t.network.Addr())
	}
	return w.b
}

func decodeProof(b []byte) (*proofToken, bool) {
	r := reader{b: b}
	t := &proofToken{scope: readScope(&r), rung: keys.Rung(r.byte()), id: r.id(), account: r.id()}
	t.born, t.expires = r.num(), r.num()
	if t.rung == keys.Delay {
		t.wait = r.num()
		t.network = keys.AddressOf(r.addr()).Wide()
	}
	return t, r.done() && t.rung >= keys.Delay && t.rung <= keys.Verify && int(t.flow) < len(Flows)
}

// maxDeviceAccounts is how many accounts of one browser a device token holds.
const maxDeviceAccounts = 8

// deviceToken is what a browser carries after a success: one entry an account,
// newest first. Each has an id of its own, so that a token that somebody
// planted in the browser shares no bucket with what is added to it.
type deviceToken struct {
	realm   string
	entries []deviceEntry
}

type deviceEntry struct {
	account keys.Account
	id      [16]byte
	issued  int64 // the stamp of the attempt that minted it
	born    int64 // the attempt's: never before issued
}

func (e *deviceEntry) expires() int64 { return e.issued + keys.DeviceLifetime }

func (t *deviceToken) encode() []byte {
	w := writer{make([]byte, 0, 128)}
	w.text(t.realm)
	for _, e := range t.entries {
		w.raw(e.account[:])
		w.raw(e.id[:])
		w.num(e.issued)
		w.num(e.born - e.issued)
	}
	return w.b
}

func decodeDevice(b []byte) (*deviceToken, bool) {
	r := reader{b: b}
	t := &deviceToken{realm: r.text()}
	for len(r.b) > 0 {
		e := deviceEntry{account: r.id(), id: r.id(), issued: r.num()}
		e.born = e.issued + r.num()
		t.entries = append(t.entries, e)
	}
	return t, r.done() && len(t.entries) <= maxDeviceAccounts
}

func (t *deviceToken) entry(a keys.Account) *deviceEntry {
	for i := range t.entries {
		if t.entries[i].account == a {
			return &t.entries[i]
		}
	}
	return nil
}

// openAs opens and decodes a token; nil for anything but what was sealed for p.
func openAs[T any](s *Secrets, p purpose, token string, decode func([]byte) (*T, bool)) *T {
	if b, ok := s.open(p, token); ok {
		if t, ok := decode(b); ok {
			return t
		}
	}
	return nil
}

// openDevice returns the realm's own device token, or nil for anything else.
func (s *Secrets) openDevice(realm, token string) *deviceToken {
	if t := openAs(s, forDevice, token, decodeDevice); t != nil && t.realm == realm {
		return t
	}
	return nil
}

func (s *Secrets) openAttempt(token string) *attemptToken {
	return openAs(s, forAttempt, token, decodeAttempt)
}

func (s *Secrets) openChallenge(token string) *challengeToken {
	return openAs(s, forChallenge, token, decodeChallenge)
}

func (s *Secrets) openProof(token string) *proofToken {
	return openAs(s, forProof, token, decodeProof)
}

func micros(t int64) time.Time { return time.UnixMicro(t).UTC() }
