package client_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
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
		Account: account, IP: r.RemoteAddr, Device: device, Proof: r.FormValue("proof")})
	warn(err)
	if !may.Proceed {
		askForMore(w, may)
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

// askForMore shows what would make the attempt acceptable: a wait, a picture,
// a code. The form posts the proof along with name and password.
func askForMore(w http.ResponseWriter, may *client.AttemptResponse) {
	fmt.Fprintf(w, "%s, back in %d ms\n", may.Action, may.RetryAfterMS)
}

func compare(account, password string) string {
	if account == "alice" && password == "correct horse" {
		return client.OutcomeSuccess
	}
	return client.OutcomeFailure
}

func finish(w http.ResponseWriter, outcome string) { fmt.Fprintln(w, outcome) }

// A guard in front of a login, and somebody who guesses.
func ExampleClient() {
	guardd := httptest.NewServer(embedded()) // in place of a running guardd
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
		fmt.Print(w.Body)
	}
	// Output:
	// failure
	// failure
	// failure
	// failure
	// delay, back in 1000 ms
}

func embedded() http.Handler {
	secrets, err := escalation.GenerateSecrets()
	if err != nil {
		panic(err)
	}
	twin := keys.NewMemory(keys.MemoryConfig{})
	g, err := escalation.New(escalation.Config{Store: twin, Records: twin, Policy: escalation.DefaultPolicy(), Secrets: secrets})
	if err != nil {
		panic(err)
	}
	return api.Service(api.Config{Guard: g})
}
