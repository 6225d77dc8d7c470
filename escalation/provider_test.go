package escalation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/guardd/guardd/keys"
)

// thirdParty knows one right answer, unless it is down.
type thirdParty struct {
	down  error
	asked []string
}

func (*thirdParty) Name() string    { return "stile" }
func (*thirdParty) SiteKey() string { return "site" }
func (*thirdParty) Script() string  { return "https://stile.example/api.js" }
func (*thirdParty) Action() string  { return "login" }

func (p *thirdParty) Verify(_ context.Context, response, ip string) (bool, error) {
	p.asked = append(p.asked, response+" from "+ip)
	return p.down == nil && response == "human", p.down
}

func TestAThirdPartyMayStandInPlaceOfAPicture(t *testing.T) {
	p := &thirdParty{}
	var told []string
	w := newMailed(t, func(c *Config) {
		c.Providers = map[string][]Provider{"default": {p}}
		c.Asked = func(name string, ok bool, err error) { told = append(told, fmt.Sprint(name, ok, err)) }
	})
	v := w.at(alice, home, keys.Captcha)
	view, err := w.g.View(context.Background(), v.Challenge.Token)
	if err != nil || !slices.Equal(view.Kinds, []string{"image", "audio", "code", "stile"}) ||
		!slices.Equal(view.Providers, []ProviderView{{"stile", "site", "https://stile.example/api.js", "login"}}) {
		t.Fatalf("%+v, %v", view, err)
	}
	r := w.answer(Solution{Token: v.Challenge.Token, Way: "stile", Text: "robot", IP: home})
	if r.Err != ProofWrongAnswer {
		t.Errorf("a wrong answer: %q", r.Err)
	}
	if r := w.answer(Solution{Token: v.Challenge.Token, Way: "stile", Text: "human", IP: home}); r.Err != ProofSpent {
		t.Errorf("a second answer: %q", r.Err)
	}
	r = w.answer(Solution{Token: r.Challenge.Token, Way: "stile", Text: "human", IP: home})
	w.let(Attempt{Account: alice, IP: home, Proof: r.Proof})

	// It being down is no success, and leaves the picture of the same challenge.
	for _, down := range []error{errors.New("timed out"), fmt.Errorf("a wrong key: %w", ErrMisconfigured)} {
		p.down = down
		v = w.at(alice, home, keys.Captcha)
		for range maxAsked {
			if r := w.answer(Solution{Token: v.Challenge.Token, Way: "stile", Text: "human", IP: home}); r.Err != ProofUnsure {
				t.Errorf("down: %q", r.Err)
			}
		}
		asked := len(p.asked)
		if r := w.answer(Solution{Token: v.Challenge.Token, Way: "stile", Text: "human", IP: home}); r.Err != ProofSpent || len(p.asked) != asked {
			t.Errorf("asked without end: %q", r.Err)
		}
		r = w.answer(Solution{Token: v.Challenge.Token, Text: w.read(v.Challenge.Token)})
		w.let(Attempt{Account: alice, IP: home, Proof: r.Proof})
	}
	if p.asked[0] != "robot from "+home || told[0] != "stilefalse <nil>" || told[len(told)-1] != "stilefalse a wrong key: misconfigured" {
		t.Errorf("%q, %q", p.asked, told)
	}
	verify := w.at(alice, home, keys.Verify)
	_, err = w.g.Answer(context.Background(), &Solution{Token: verify.Challenge.Token, Way: "stile", Text: "human"})
	wantFault(t, err, "way", "unknown")
}
