package escalation

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/trace"
)

// Limits of what a handler may send, in bytes. Visitors choose the user agent,
// so its limit is beyond what servers accept as a header.
const (
	maxRequestID = 128
	maxChannel   = 64
	maxUserAgent = 8192
	maxReturnURL = 400
	minTag       = 16
	maxTag       = 64
)

// visit is one Attempt, checked and resolved.
type visit struct {
	traced    *trace.Request // nil: of no trace
	a         *Attempt
	realm     *liveRealm
	flow      *flowRules
	flowName  string
	scope     scope
	account   keys.Account
	name      string       // normalised
	names     keys.Visitor // of what bears on account and address
	ip        keys.Address
	listed    listing
	device    *deviceEntry // what the token claims for this account
	badDevice bool         // a token was shown that is none
	shown     shown
	floodK    int64 // the address' size as the flood guard knows it; 0: not asked
}

// visit checks a and resolves names. The error is Faults.
func (l *live) visit(a *Attempt, now int64) (*visit, error) {
	v, faults := &visit{a: a}, &Faults{}
	realm, flow := a.Realm, a.Flow
	if realm == "" {
		realm = DefaultRealm
	}
	if flow == "" {
		flow = DefaultFlow
	}
	index := slices.Index(Flows, flow)
	if index < 0 {
		faults.Add("flow", "unknown")
	}
	if v.realm = l.realms[realm]; v.realm == nil {
		faults.Add("realm", "unknown")
	}
	var err error
	if v.realm == nil {
		_, err = keys.Fold.Apply(a.Account)
	} else {
		v.account, v.name, err = v.realm.account(a.Account)
	}
	if err != nil {
		faults.Add("account", "%v", err)
	}
	if v.ip, err = keys.ParseAddress(a.IP); err != nil {
		faults.Add("ip", "%v", err)
	}
	checkRequest(a, faults)
	if v.realm != nil && a.ReturnURL != "" {
		checkReturnURL(a.ReturnURL, v.realm.origins, faults)
	}
	if len(*faults) > 0 {
		return nil, *faults
	}
	v.flowName, v.flow = flow, v.realm.flows[index]
	v.scope = scope{realm, byte(index)}
	v.listed, _ = v.realm.listed.Load().lookup(v.ip, now)
	v.names = v.realm.visitor(v.account, v.ip)
	return v, nil
}

// checkRequest checks what needs no policy.
func checkRequest(a *Attempt, faults *Faults) {
	text := func(field, s string, most int) {
		switch {
		case len(s) > most:
			faults.Add(field, "too_long")
		case !utf8.ValidString(s):
			faults.Add(field, "invalid_utf8")
		case strings.ContainsFunc(s, unicode.IsControl):
			faults.Add(field, "control")
		}
	}
	text("request_id", a.RequestID, maxRequestID)
	text("channel", a.Channel, maxChannel)
	text("user_agent", a.UserAgent, maxUserAgent)
	if n := len(a.PasswordTag); n > 0 {
		switch {
		case strings.Trim(a.PasswordTag, "0123456789abcdefABCDEF") != "":
			faults.Add("password_tag", "not_hex")
		case n < minTag:
			faults.Add("password_tag", "too_short")
		case n > maxTag:
			faults.Add("password_tag", "too_long")
		}
	}
	switch {
	case a.Challenge != "" && a.Answer == "":
		faults.Add("answer", "missing")
	case a.Challenge == "" && a.Answer != "":
		faults.Add("challenge", "missing")
	case a.Challenge != "" && a.Proof != "":
		faults.Add("proof", "not_with_challenge")
	}
}

// checkReturnURL accepts what begins with an allowed origin and goes on as a
// path, query or fragment. The text itself is compared, because parsers differ
// on what the host is (https://good\@evil): what is beyond plain ASCII or has
// a backslash is refused. So is what is no URL at all (https://good/%zz), which
// would be found out only when the visitor is to be sent back with her proof.
func checkReturnURL(s string, origins []string, faults *Faults) {
	if len(s) > maxReturnURL {
		faults.Add("return_url", "too_long")
		return
	}
	plain := !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7F || r == '\\' })
	_, err := url.Parse(s)
	ok := plain && err == nil && slices.ContainsFunc(origins, func(o string) bool {
		rest, found := strings.CutPrefix(s, o)
		return found && (rest == "" || strings.ContainsRune("/?#", rune(rest[0])))
	})
	if !ok {
		faults.Add("return_url", "not_allowed")
	}
}

// request identifies a repeat. The id is hashed, because it is the handler's
// and may hold a name; the body is everything else that was sent.
func (v *visit) request() keys.Request {
	a := v.a
	if a.RequestID == "" {
		return keys.Request{}
	}
	breached := "n"
	if a.PasswordBreached {
		breached = "y"
	}
	id := v.fingerprint("id", v.scope.realm, v.flowName, a.RequestID)
	body := v.fingerprint("body", v.scope.realm, v.flowName, a.Account, a.IP, a.Device, a.Proof, a.Challenge, a.Answer,
		a.ReturnURL, a.UserAgent, a.Channel, breached, a.PasswordTag)
	return keys.Request{Key: v.realm.at(v.account).Request(v.flowName, idText(id)), Body: body}
}

// fingerprint is a keyed hash of the parts, each with its length before it.
func (v *visit) fingerprint(parts ...string) [16]byte {
	m := hmac.New(sha256.New, v.realm.requests)
	var n [4]byte
	for _, p := range parts {
		binary.BigEndian.PutUint32(n[:], uint32(len(p)))
		m.Write(n[:])
		m.Write([]byte(p))
	}
	return [16]byte(m.Sum(nil)[:16])
}
