package api

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/guardd/guardd/api/client"
	"github.com/guardd/guardd/escalation"
)

// problemOf is the one table from errors to answers. What it does not know is
// ours, and its words stay here: they may hold what a stranger must not read.
func problemOf(err error) *client.Problem {
	var p *client.Problem
	var faults escalation.Faults
	var unknown unknownError
	if p := limitsProblem(err); p != nil {
		return p
	}
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &faults):
		fields := make([]client.FieldError, len(faults))
		for i, f := range faults {
			fields[i] = client.FieldError(f)
		}
		return problemInvalid(fields...)
	case errors.Is(err, escalation.ErrRealm):
		return problem(client.ProblemForbidden, http.StatusForbidden, "Not for this realm",
			"The key may not act for the realm of this request.", client.FieldError{Field: "realm", Reason: "forbidden"})
	case errors.Is(err, escalation.ErrTooMany):
		return problem(client.ProblemTooMany, http.StatusTooManyRequests, "Fetched too often",
			"This was fetched as often as it may be, or its address fetches too much. A fresh challenge or a minute's patience helps.")
	case errors.Is(err, escalation.ErrConflict):
		return problem(client.ProblemConflict, http.StatusConflict, "Request id used twice",
			"The request_id was used within the last minute for another request. Make a fresh one per attempt.",
			client.FieldError{Field: "request_id", Reason: "conflict"})
	case errors.As(err, &unknown):
		return problemUnknown()
	case errors.Is(err, escalation.ErrStore):
		return problemStore()
	}
	return problemInternal()
}

func problem(kind string, status int, title, detail string, fields ...client.FieldError) *client.Problem {
	return &client.Problem{Type: client.ProblemBase + kind, Title: title, Status: status, Detail: detail, Fields: fields}
}

func problemInvalid(fields ...client.FieldError) *client.Problem {
	return problem(client.ProblemInvalid, http.StatusBadRequest, "Invalid request",
		"The request cannot be understood; errors names each field and what is wrong with it.", fields...)
}

func problemUnauthorized(detail string) *client.Problem {
	return problem(client.ProblemUnauthorized, http.StatusUnauthorized, "No valid key", detail)
}

func problemBrowser() *client.Problem {
	return problem(client.ProblemBrowser, http.StatusForbidden, "Not for browsers",
		"This interface is for services. A page of another origin may not use it.")
}

func problemOtherPage() *client.Problem {
	return problem(client.ProblemBrowser, http.StatusForbidden, "Not from this page",
		"A challenge may be answered from its own page and from the origin that it returns to.")
}

func problemNotFound() *client.Problem {
	return problem(client.ProblemNotFound, http.StatusNotFound, "Not found", "There is nothing at this path.")
}

func problemMethod() *client.Problem {
	return problem(client.ProblemMethod, http.StatusMethodNotAllowed, "Method not allowed",
		"The header Allow lists the methods of this path.")
}

func problemTimeout() *client.Problem {
	return problem(client.ProblemTimeout, http.StatusRequestTimeout, "Request too slow", "The body did not arrive in time.")
}

func problemTooLarge(most int64) *client.Problem {
	return problem(client.ProblemTooLarge, http.StatusRequestEntityTooLarge, "Body too large", fmt.Sprintf("A request body holds at most %d KiB here.", most>>10))
}

func problemMediaType() *client.Problem {
	return problem(client.ProblemMediaType, http.StatusUnsupportedMediaType, "Not JSON",
		"Send the request as Content-Type: application/json.")
}

func problemExpired() *client.Problem {
	return problem(client.ProblemExpired, http.StatusGone, "Challenge expired",
		"The challenge is no longer valid. Make the attempt again to get a fresh one.", client.FieldError{Field: "token", Reason: "expired"})
}

func problemUnsolved(a *escalation.Solved) *client.Problem {
	p := problem(client.ProblemUnsolved, http.StatusUnprocessableEntity, "Challenge not solved",
		"The answer gave no proof; proof_error says why. Solve the fresh challenge, if there is one.")
	p.ProofError, p.Challenge = string(a.Err), challenge(a.Challenge)
	return p
}

func problemImpossible() *client.Problem {
	return problem(client.ProblemImpossible, http.StatusUnprocessableEntity, "Cost above capacity",
		"The request costs more than a limit can ever hold. Waiting does not help.", client.FieldError{Field: "cost", Reason: "above_capacity"})
}

func problemStore() *client.Problem {
	return problem(client.ProblemStore, http.StatusServiceUnavailable, "Store not reachable",
		"Nothing is known to have been done. Repeat the request.")
}

func problemInternal() *client.Problem {
	return problem(client.ProblemInternal, http.StatusInternalServerError, "Internal error", "The fault is guardd's; its log says more.")
}

func writeProblem(w http.ResponseWriter, p *client.Problem) {
	switch p.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="guardd"`)
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	writeJSON(w, p.Status, "application/problem+json", p)
}
