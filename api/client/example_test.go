package client_test

import (
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

var guard *client.Client

// login is a whole login handler.
func login(w http.ResponseWriter, r *http.Request) {
	account, device := r.FormValue("account"), client.DeviceToken(r)
	may, err := guard.Attempt(r.Context(), client.AttemptRequest{
		Account: account, IP: r.RemoteAddr, Device: device,
		Proof: r.FormValue(client.ReturnParameter), ReturnURL: "https://shop.example/login"})
	warn(err)
	if !may.Proceed {
		askForMore(w, r, may)
		return
	}
	outcome := compare(account, r.FormValue("password")) // client.OutcomeSuccess, ...
	told, err := guard.Outcome(r.Context(), client.OutcomeRequest{Attempt: may.Attempt, Account: account, Outcome: outcome, Device: device})
	warn(err)
	http.SetCookie(w, told.Cookie())
	finish(w, outcome)
}

// warn is where a handler raises its alarm: without guardd it goes on by
// Config.Policy.
func warn(err error) {
	if err != nil {
		slog.Warn("login", "error", err)
	}
}

// askForMore sends a refused visitor to the page of his challenge, which leads
// back to ReturnURL with the proof in its query.
func askForMore(w http.ResponseWriter, r *http.Request, may *client.AttemptResponse) {
	if may.Challenge == nil { // denied by an operator's list, or nobody could be asked
		http.Error(w, "Not now.", http.StatusForbidden)
		return
	}
	http.Redirect(w, r, may.Challenge.Page, http.StatusSeeOther)
}

// form is the login's page. It carries the proof that a visitor came back with
// along with name and password.
func form(w http.ResponseWriter, r *http.Request) {
	err := page.Execute(w, r.FormValue(client.ReturnParameter))
	warn(err)
}

var page = template.Must(template.New("login").Parse(`<form method="post" action="/login">
<input type="hidden" name="guardd_proof" value="{{.}}">
<label>Name <input name="account"></label> <label>Password <input name="password" type="password"></label> <button>Sign in</button></form>`))

func compare(account, password string) string {
	if account == "alice" && password == "correct horse" {
		return client.OutcomeSuccess
	}
	return client.OutcomeFailure
}

func finish(w http.ResponseWriter, outcome string) { fmt.Fprintln(w, outcome) }

// A guard in front of a login, and somebody who guesses.
func ExampleClient() {
	guardd := httptest.NewServer(embedded(nil)) // in place of a running guardd
	defer guardd.Close()
	var err error
	// The minute is for busy test machines; without it, DefaultTimeout.
	if guard, err = client.New(client.Config{URL: guardd.URL, Timeout: time.Minute}); err != nil {
		panic(err)
	}
	defer guard.Close()

	for _, password := range []string{"123456", "password", "qwerty", "letmein", "dragon"} {
		form := url.Values{"account": {"alice"}, "password": {password}}
		r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		login(w, r)
		to, _, _ := strings.Cut(w.Header().Get("Location"), "/challenges/")
		fmt.Println(w.Code, strings.TrimSpace(w.Body.String())+to)
	}
	// Output:
	// 200 failure
	// 200 failure
	// 200 failure
	// 200 failure
	// 303 https://guardd.example
}

// checked is the end of a login handler that looks passwords up, too. A session
// of the shop's own keeps what is held.
func checked(w http.ResponseWriter, r *http.Request, may *client.AttemptResponse, account string) {
	leak, err := guard.Breached(r.Context(), r.FormValue("password"))
	warn(err) // nothing is known of it then, and Breached is false
	done := client.OutcomeRequest{Attempt: may.Attempt, Account: account, Device: client.DeviceToken(r),
		Outcome: compare(account, r.FormValue("password")), PasswordBreached: leak.Breached,
		Proof: r.FormValue(client.ReturnParameter), ReturnURL: "https://shop.example/verified"}
	report(w, r, done)
}

// verified is where the page of that code leads back to.
func verified(w http.ResponseWriter, r *http.Request) {
	done := session(r).held
	done.Proof = r.FormValue(client.ReturnParameter)
	report(w, r, done)
}

func report(w http.ResponseWriter, r *http.Request, done client.OutcomeRequest) {
	told, err := guard.Outcome(r.Context(), done)
	warn(err)
	if told.Advises(client.AdviceVerify) { // right, leaked, and from a stranger's browser: nobody is signed in yet
		session(r).held = done
		http.Redirect(w, r, told.Challenge.Page, http.StatusSeeOther)
		return
	}
	http.SetCookie(w, told.Cookie())
	if told.Advises(client.AdviceResetPassword) {
		session(r).mustReset = true // sign in, and ask for another password at once
	}
	finish(w, done.Outcome)
}

// session is the shop's own.
func session(*http.Request) *struct {
	held      client.OutcomeRequest
	mustReset bool
} {
	return &sessionOfTheOnlyVisitor
}

var sessionOfTheOnlyVisitor struct {
	held      client.OutcomeRequest
	mustReset bool
}

// embedded is a guardd for login and browsers. now nil: its clock is real.
func embedded(now func() int64) http.Handler {
	secrets, err := escalation.GenerateSecrets()
	if err != nil {
		panic(err)
	}
	policy := escalation.DefaultPolicy()
	policy.Realms["default"].ReturnOrigins = []string{"https://shop.example"}
	twin := keys.NewMemory(keys.MemoryConfig{})
	g, err := escalation.New(escalation.Config{Store: twin, Records: twin, Policy: policy, Secrets: secrets, Now: now, PublicURL: "https://guardd.example"})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/challenges/", api.Challenges(api.Config{Challenger: g}))
	mux.Handle("/", api.Service(api.Config{Guard: g}))
	return mux
}

// The whole way of a refused visitor: to the page, back with the proof, and on.
func TestALoginGoesByThePageAndBack(t *testing.T) {
	var clock atomic.Int64
	clock.Store(time.Now().UnixMicro())
	guardd := httptest.NewServer(embedded(clock.Load))
	defer guardd.Close()
	var err error
	if guard, err = client.New(client.Config{URL: guardd.URL, Timeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	defer guard.Close()
	post := func(proof string) *httptest.ResponseRecorder {
		fields := url.Values{"account": {"alice"}, "password": {"correct horse"}, client.ReturnParameter: {proof}}
		r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(fields.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		login(w, r)
		return w
	}
	for range 4 {
		may, err := guard.Attempt(t.Context(), client.AttemptRequest{Account: "alice", IP: "192.0.2.1"})
		if err != nil || !may.Proceed {
			t.Fatalf("%+v, %v", may, err)
		}
		clock.Add(time.Second.Microseconds())
	}
	refused := post("")
	_, path, ok := strings.Cut(refused.Header().Get("Location"), "https://guardd.example")
	if refused.Code != http.StatusSeeOther || !ok {
		t.Fatalf("%d to %q", refused.Code, refused.Header().Get("Location"))
	}
	clock.Add((2 * time.Second).Microseconds()) // its time has come, and no guess has refilled
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := browser.PostForm(guardd.URL+path+"/answer", url.Values{"way": {"wait"}})
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	back := res.Header.Get("Location")
	if res.StatusCode != http.StatusSeeOther || !strings.HasPrefix(back, "https://shop.example/login?") {
		t.Fatalf("%d to %q", res.StatusCode, back)
	}
	shown := httptest.NewRecorder()
	form(shown, httptest.NewRequest(http.MethodGet, back, nil))
	proof := regexp.MustCompile(`name="` + client.ReturnParameter + `" value="([^"]+)"`).FindStringSubmatch(shown.Body.String())
	if proof == nil {
		t.Fatalf("no proof in %s", shown.Body)
	}
	if w := post(proof[1]); w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != client.OutcomeSuccess {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
