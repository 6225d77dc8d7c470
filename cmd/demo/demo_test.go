package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/api/client"
)

// openShop starts a demo that ends with the test.
func openShop(t *testing.T) *demo {
	t.Helper()
	d, err := start(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	// An attack lasts as long as a test on a slow machine.
	d.shop.attack.most, d.shop.attack.lasts = 1_000_000, 10*time.Minute
	t.Cleanup(func() {
		if err := d.close(); err != nil {
			t.Error(err)
		}
		select {
		case err := <-d.failed:
			t.Error(err)
		default:
		}
	})
	return d
}

const (
	alice, right = "alice@example.com", "correct horse"
	stranger     = "192.0.2.77"
)

// refused guesses from an address until something is asked for.
func (d *demo) refused(t *testing.T, ip string) *client.AttemptResponse {
	t.Helper()
	for range 30 {
		may, _, _ := d.shop.login(t.Context(), guess{account: alice, password: "wrong", ip: ip})
		if may.Unreachable {
			t.Fatal("guardd cannot be asked")
		}
		if !may.Proceed {
			return may
		}
	}
	t.Fatal("30 guesses and nothing is asked for")
	return nil
}

// await waits until cond holds, and ends the test when it never does.
func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(20 * time.Second); !cond(); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("never came: %s", what)
		}
	}
}

func TestTheDemoSaysWhereItIs(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	said, out := io.Pipe()
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, []string{"-port", "0", "-guardd-port", "0"}, out, io.Discard) }()
	line := make([]byte, 200)
	n, _ := said.Read(line)
	at := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).Find(line[:n])
	res, err := http.Get(string(at) + "/")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if res.StatusCode != http.StatusOK || !bytes.Contains(text, []byte("<h1>Sign in</h1>")) {
		t.Errorf("answered %d %s", res.StatusCode, text)
	}
	var errOut bytes.Buffer
	_, port, _ := strings.Cut(string(at[len("http://"):]), ":")
	if code := run(ctx, []string{"-port", "0", "-guardd-port", port}, io.Discard, &errOut); code != 1 || !strings.Contains(errOut.String(), "give another with -guardd-port") {
		t.Errorf("a port that is taken: %d, %s", code, errOut.String())
	}
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("ended with %d", code)
	}
	if code := run(ctx, []string{"-port", "x"}, io.Discard, io.Discard); code != 2 {
		t.Errorf("a port that is none: %d", code)
	}
}

// The page shows what guardd answered, and pages elsewhere press none of its buttons.
func TestTheShopShowsWhatGuarddAnswered(t *testing.T) {
	d := openShop(t)
	jar, _ := cookiejar.New(nil)
	browser := &http.Client{Jar: jar}
	post := func(path string, form url.Values, origin string) (int, string) {
		r, err := http.NewRequest(http.MethodPost, d.shop.url+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", origin)
		res, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	wrong := url.Values{"account": {alice}, "password": {"<wrong>"}}
	for _, want := range []int{401, 401, 401, 401, 429} {
		status, text := post("/", wrong, d.shop.url)
		if status != want || (status == 429) != strings.Contains(text, d.guard.url+"/challenges/") {
			t.Errorf("answered %d, want %d:\n%s", status, want, text)
		}
		if strings.Contains(text, "&lt;wrong") || strings.Contains(text, "<wrong") {
			t.Error("the page repeats the password")
		}
	}
	for _, path := range []string{"/", "/attack", "/forget"} {
		if status, _ := post(path, url.Values{"account": {alice}, "do": {"begin"}}, "https://evil.example"); status != http.StatusForbidden {
			t.Errorf("%s from elsewhere: %d", path, status)
		}
	}
	if v := d.shop.attack.view(); v.Running {
		t.Error("a page elsewhere began an attack")
	}
	if status, text := post("/", url.Values{"account": {"nobody@example.com"}, "password": {right}}, d.shop.url); status != 401 || !strings.Contains(text, "Name or password is wrong") {
		t.Errorf("an unknown name: %d", status)
	}
}

// What strangers ask for is bounded, the owner's newest mail holds a code that
// opens, and what attacks ends when it is told to.
func TestTheAttackIsMadeOfWhatAnAttackerHas(t *testing.T) {
	d := openShop(t)
	d.shop.attack.begin(alice, true)
	await(t, "an account that asks for a code", func() bool {
		v := d.shop.attack.view()
		return v.Read >= 5 && v.Sent >= 5
	})
	d.shop.attack.stop()
	v := d.shop.attack.view()
	if v.Running {
		t.Error("it goes on")
	}
	counts := map[string]int64{}
	for _, a := range v.Answers {
		counts[a.Name] = a.N
	}
	if counts["allow"] == 0 || counts["delay"] == 0 || counts["captcha"] == 0 || counts["verify"] == 0 || counts["deny"] != 0 {
		t.Errorf("the attacker met %v", counts)
	}
	if may := d.refused(t, stranger); may.Action != client.ActionVerify {
		t.Errorf("after the attack %s is asked for", may.Action)
	}
	if mails := d.shop.inbox.all(); len(mails) != 1 || mails[0].Code == "" {
		t.Errorf("mails: %+v", mails)
	}
}
