package sink

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/guardd/guardd/aggregate/soc"
	"github.com/guardd/guardd/escalation/delivery/hook"
)

const (
	// resend is how often Alertmanager is told of what is open: it forgets an alert at
	// its end, which is lasts ahead each time. So one that is no longer told of, because
	// guardd is gone, ends by itself.
	resend = time.Minute
	lasts  = 5 * time.Minute
	// momentLasts is how long an alert of a moment stays: nothing will end it.
	momentLasts = 15 * time.Minute
	// openMost bounds what is told again; an attack has one campaign, or a few.
	openMost = 2048
)

// alertmanager posts alerts to the API, version 2, of findings only.
type alertmanager struct {
	c      *Config
	url    string
	client *http.Client
	open   map[string]*alert // by campaign
}

// alert is one of the API's postableAlert.
type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
}

// ownLabels tell alerts apart: nothing that changes while a campaign goes on but the
// severity, by which alerts are routed.
var ownLabels = []string{"alertname", "realm", "what", "campaign", "severity"}

// severities are the words that alerts of Prometheus' world are routed by.
var severities = map[soc.Severity]string{soc.Informational: "info", soc.Low: "info", soc.Medium: "warning", soc.High: "critical", soc.Critical: "critical"}

func newAlertmanager(c *Config, at string, gate hook.Gate) *alertmanager {
	return &alertmanager{c: c, url: strings.TrimSuffix(at, "/") + "/api/v2/alerts", client: hook.Client(gate, c.TLS), open: map[string]*alert{}}
}

// Deliver is soc.Sink's. Of a campaign that changes within the batch the last state
// counts. A severity that rises is another alert, so the one before it is ended.
func (a *alertmanager) Deliver(ctx context.Context, records []*soc.Record) (int, error) {
	now, open := time.Now(), maps.Clone(a.open)
	posts := map[string]*alert{} // by labels, which are what Alertmanager tells alerts apart by
	for _, r := range records {
		if r.Finding == nil {
			continue
		}
		campaign := r.Realm + "\x00" + r.Finding.ID
		x := a.alert(r, now)
		if was := open[campaign]; was != nil && key(was) != key(x) {
			over := *was
			over.EndsAt = now
			posts[key(was)] = &over
		}
		posts[key(x)] = x
		switch r.Change {
		case soc.Opened, soc.Updated:
			if len(open) < openMost || open[campaign] != nil {
				open[campaign] = x
			}
		default:
			delete(open, campaign)
		}
	}
	if err := a.post(ctx, posts); err != nil {
		return 0, err
	}
	a.open = open
	return len(records), nil
}

func key(x *alert) string { return fmt.Sprint(x.Labels) }

// alert is what a record is to Alertmanager, at now.
func (a *alertmanager) alert(r *soc.Record, now time.Time) *alert {
	f := r.Finding
	x := &alert{StartsAt: f.Start.UTC(), EndsAt: now.Add(lasts), Labels: map[string]string{
		"alertname": "guardd_" + f.What, "what": f.What, "campaign": f.ID, "severity": severities[r.Severity]},
		Annotations: map[string]string{"summary": r.Title(), "description": r.Message()}}
	if r.Realm != "" { // an empty label is none
		x.Labels["realm"] = r.Realm
	}
	for name, n := range map[string]int{"guesses": f.Guesses, "accounts": f.Accounts, "sources": f.Sources} {
		if n > 0 {
			x.Annotations[name] = strconv.Itoa(n)
		}
	}
	if f.Posture != "" {
		x.Annotations["posture"] = f.Posture
	}
	maps.Copy(x.Labels, a.c.Labels)
	switch r.Change {
	case soc.Closed:
		x.EndsAt = now
	case soc.Once:
		x.EndsAt = now.Add(momentLasts)
	}
	return x
}

// Again is soc.Keeper's.
func (a *alertmanager) Again(ctx context.Context) error {
	now, posts := time.Now(), map[string]*alert{}
	for _, x := range a.open {
		x.EndsAt = now.Add(lasts)
		posts[key(x)] = x
	}
	return a.post(ctx, posts)
}

// Every is soc.Keeper's.
func (a *alertmanager) Every() time.Duration { return resend }

func (a *alertmanager) post(ctx context.Context, posts map[string]*alert) error {
	if len(posts) == 0 {
		return nil
	}
	list := make([]*alert, 0, len(posts))
	for _, x := range posts {
		list = append(list, x)
	}
	body, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("%w: %w", soc.ErrRefused, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: the URL cannot be used", soc.ErrRefused)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "guardd")
	return send(a.client, req)
}

// Close is soc.Sink's.
func (a *alertmanager) Close() error { a.client.CloseIdleConnections(); return nil }
