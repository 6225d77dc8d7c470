package operate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// Entry is one network that an operator has listed.
type Entry struct {
	CIDR      string    `json:"cidr"` // canonical
	Reason    string    `json:"reason"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // zero: it stays
	Force     bool      `json:"force,omitzero"`
	By        string    `json:"by"`
	At        time.Time `json:"at,omitzero"` // zero for those of the policy
}

// ListRequest lists networks: CIDR, CIDRs, or both. Of one that is listed
// already, expiry and reason become these.
type ListRequest struct {
	Realm     string    `json:"realm"`
	CIDR      string    `json:"cidr"`
	CIDRs     []string  `json:"cidrs"`
	ExpiresAt time.Time `json:"expires_at"`
	Reason    string    `json:"reason"`
	Force     bool      `json:"force"`
	DryRun    bool      `json:"dry_run"`
}

// UnlistRequest takes networks from a list.
type UnlistRequest struct {
	Realm  string   `json:"realm"`
	CIDR   string   `json:"cidr"`
	CIDRs  []string `json:"cidrs"`
	Reason string   `json:"reason"`
	DryRun bool     `json:"dry_run"`
}

// Listed is the answer to both.
type Listed struct {
	Changed bool  `json:"changed"`
	DryRun  bool  `json:"dry_run"`
	Entries int   `json:"entries"` // on the list then
	Seq     int64 `json:"seq,omitzero"`
}

// List is a realm's list.
type List struct {
	Realm   string  `json:"realm"`
	List    string  `json:"list"`
	Entries []Entry `json:"entries"` // of operators, sorted by network
	Policy  []Entry `json:"policy"`  // of the policy, where alone they can be changed
}

// document is both lists of a realm as they are stored.
type document struct {
	Allow []Entry `json:"allow"`
	Deny  []Entry `json:"deny"`
}

// listsLifetime is how long a document outlives its last writing; each instance
// writes it anew once a day.
const listsLifetime = 400 * keys.Day

func readDocument(b []byte) (*document, error) {
	doc := new(document)
	if len(b) == 0 {
		return doc, nil
	}
	if err := json.Unmarshal(b, doc); err != nil {
		return nil, fmt.Errorf("the stored lists: %w", err)
	}
	return doc, nil
}

func (doc *document) of(list string) *[]Entry {
	if list == escalation.ListDeny {
		return &doc.Deny
	}
	return &doc.Allow
}

// expire drops what has run out.
func (doc *document) expire(now time.Time) {
	for _, l := range []*[]Entry{&doc.Allow, &doc.Deny} {
		*l = slices.DeleteFunc(*l, func(e Entry) bool { return !e.ExpiresAt.IsZero() && !now.Before(e.ExpiresAt) })
	}
}

func (doc *document) lists() (l escalation.Lists) {
	for _, e := range doc.Allow {
		l.Allow = append(l.Allow, escalation.ListEntry{CIDR: e.CIDR, Reason: e.Reason, ExpiresAt: e.ExpiresAt, Force: e.Force})
	}
	for _, e := range doc.Deny {
		l.Deny = append(l.Deny, escalation.ListEntry{CIDR: e.CIDR, Reason: e.Reason, ExpiresAt: e.ExpiresAt, Force: e.Force})
	}
	return l
}

// CheckList refuses the name of a list that there is not.
func checkList(list string, faults *escalation.Faults) {
	if list != escalation.ListAllow && list != escalation.ListDeny {
		faults.Add("list", "unknown")
	}
}

// networks reads those of a request, in canonical form.
func networks(cidr string, cidrs []string, force bool, faults *escalation.Faults) (all []string) {
	if cidr != "" || len(cidrs) == 0 {
		cidrs = append([]string{cidr}, cidrs...)
	}
	if len(cidrs) > escalation.MaxListed {
		faults.Add("cidrs", "too_many")
		return nil
	}
	for i, c := range cidrs {
		field := "cidr"
		if i > 0 || cidr == "" && len(cidrs) > 1 {
			field = fmt.Sprintf("cidrs.%d", i)
		}
		if c == "" {
			faults.Add(field, "missing")
			continue
		}
		p, err := escalation.ListedNetwork(c, force)
		if err != nil {
			faults.Add(field, "%v", err)
			continue
		}
		all = append(all, p.String())
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// List puts networks on a list. It counts everywhere within a second. Errors:
// Faults, ErrRealm, ErrStore.
func (d *Desk) List(ctx context.Context, w *Who, list string, q *ListRequest) (*Listed, error) {
	realm, err := d.realm(w, q.Realm)
	if err != nil {
		return nil, err
	}
	faults := escalation.Faults{}
	checkList(list, &faults)
	checkReason(q.Reason, &faults)
	now := d.c.Guard.Now()
	if !q.ExpiresAt.IsZero() && !q.ExpiresAt.After(now) {
		faults.Add("expires_at", "past")
	}
	all := networks(q.CIDR, q.CIDRs, q.Force, &faults)
	if err := faultsOf(faults); err != nil {
		return nil, err
	}
	r := (&Record{Action: ActionList, Reason: q.Reason}).of(list, all)
	if !q.ExpiresAt.IsZero() {
		r.Is = "until " + q.ExpiresAt.UTC().Format(time.RFC3339)
	}
	return d.change(ctx, w, realm, q.DryRun, r, func(entries []Entry) ([]Entry, error) {
		at := map[string]int{}
		for i, e := range entries {
			at[e.CIDR] = i
		}
		for _, c := range all {
			e := Entry{CIDR: c, Reason: q.Reason, ExpiresAt: q.ExpiresAt.UTC(), Force: q.Force, By: w.Name, At: now}
			i, there := at[c]
			switch {
			case !there:
				entries = append(entries, e)
			case !entries[i].ExpiresAt.Equal(e.ExpiresAt) || entries[i].Reason != e.Reason || entries[i].Force != e.Force:
				entries[i] = e
			}
		}
		if len(entries) > escalation.MaxListed {
			return nil, escalation.Faults{{Field: "cidr", Reason: "full"}}
		}
		return entries, nil
	})
}

// Unlist takes networks from a list. Errors: Faults, ErrRealm, ErrStore.
func (d *Desk) Unlist(ctx context.Context, w *Who, list string, q *UnlistRequest) (*Listed, error) {
	realm, err := d.realm(w, q.Realm)
	if err != nil {
		return nil, err
	}
	faults := escalation.Faults{}
	checkList(list, &faults)
	checkReason(q.Reason, &faults)
	all := networks(q.CIDR, q.CIDRs, true, &faults)
	if err := faultsOf(faults); err != nil {
		return nil, err
	}
	for _, e := range d.policyList(realm, list) {
		if slices.Contains(all, e.CIDR) {
			return nil, escalation.Faults{{Field: "cidr", Reason: "in_policy"}}
		}
	}
	r := (&Record{Action: ActionUnlist, Reason: q.Reason}).of(list, all)
	return d.change(ctx, w, realm, q.DryRun, r, func(entries []Entry) ([]Entry, error) {
		return slices.DeleteFunc(entries, func(e Entry) bool { return slices.Contains(all, e.CIDR) }), nil
	})
}

// change changes one list.
func (d *Desk) change(ctx context.Context, w *Who, realm string, dry bool, r *Record, change func([]Entry) ([]Entry, error)) (*Listed, error) {
	a := &Listed{DryRun: dry}
	now := d.c.Guard.Now()
	changed := false
	_, err := keys.Change(ctx, d.c.Store, keys.NewSpace(realm, 0).Lists(), func(was []byte) ([]byte, int64, bool, error) {
		doc, err := readDocument(was)
		if err != nil {
			return nil, 0, false, err
		}
		doc.expire(now)
		list := doc.of(r.List)
		before, err := json.Marshal(*list)
		if err != nil {
			return nil, 0, false, err
		}
		if *list, err = change(*list); err != nil {
			return nil, 0, false, err
		}
		slices.SortFunc(*list, byNetwork)
		after, err := json.Marshal(*list)
		if err != nil {
			return nil, 0, false, err
		}
		a.Entries, changed = len(*list), !bytes.Equal(before, after) && len(before)+len(after) > len("null[]")
		if changed && !dry {
			value, err := json.Marshal(doc)
			return value, listsLifetime, true, err
		}
		return nil, 0, false, nil
	})
	if err != nil {
		return nil, unreachable(err)
	}
	if a.Changed = changed; dry {
		return a, nil
	}
	r.Realm, r.Changed = realm, changed
	if err := d.Book(ctx, w, r); err != nil {
		return nil, unreachable(err)
	}
	a.Seq = r.Seq
	return a, nil
}

func byNetwork(a, b Entry) int {
	x, errX := netip.ParsePrefix(a.CIDR)
	y, errY := netip.ParsePrefix(b.CIDR)
	if errX != nil || errY != nil {
		return strings.Compare(a.CIDR, b.CIDR)
	}
	if c := x.Addr().Compare(y.Addr()); c != 0 {
		return c
	}
	return x.Bits() - y.Bits()
}

// Lists shows a list. Errors: Faults, ErrRealm, ErrStore.
func (d *Desk) Lists(ctx context.Context, w *Who, realm, list string) (*List, error) {
	realm, err := d.realm(w, realm)
	if err != nil {
		return nil, err
	}
	faults := escalation.Faults{}
	checkList(list, &faults)
	if err := faultsOf(faults); err != nil {
		return nil, err
	}
	b, err := d.c.Store.Get(ctx, keys.NewSpace(realm, 0).Lists())
	if err != nil {
		return nil, unreachable(err)
	}
	doc, err := readDocument(b)
	if err != nil {
		return nil, err
	}
	doc.expire(d.c.Guard.Now())
	l := &List{Realm: realm, List: list, Entries: []Entry{}, Policy: d.policyList(realm, list)}
	l.Entries = append(l.Entries, *doc.of(list)...)
	return l, nil
}

func (d *Desk) policyList(realm, list string) []Entry {
	lists := d.c.Guard.Policy().Realms[realm].Lists
	from := lists.Allow
	if list == escalation.ListDeny {
		from = lists.Deny
	}
	entries := []Entry{}
	for _, e := range from {
		cidr := e.CIDR
		if p, err := escalation.ListedNetwork(cidr, true); err == nil {
			cidr = p.String()
		}
		entries = append(entries, Entry{CIDR: cidr, Reason: e.Reason, ExpiresAt: e.ExpiresAt, Force: e.Force, By: "policy"})
	}
	return entries
}

// takeLists has this instance go by the stored lists of every realm, where it does
// not already, and writes them anew.
func (d *Desk) takeLists(ctx context.Context) (errs error) {
	for _, realm := range d.c.Realms() {
		if d.listed[realm] {
			continue
		}
		err := d.takeList(ctx, realm)
		if err == nil {
			_, err = keys.Change(ctx, d.c.Store, keys.NewSpace(realm, 0).Lists(), func(was []byte) ([]byte, int64, bool, error) {
				return was, listsLifetime, was != nil, nil
			})
		}
		if d.listed[realm] = err == nil; err != nil {
			errs = errors.Join(errs, fmt.Errorf("realm %s: %w", realm, err))
		}
	}
	return errs
}

// takeList has this instance go by the stored lists of a realm.
func (d *Desk) takeList(ctx context.Context, realm string) error {
	b, err := d.c.Store.Get(ctx, keys.NewSpace(realm, 0).Lists())
	if err != nil {
		return err
	}
	doc, err := readDocument(b)
	if err == nil {
		doc.expire(d.c.Guard.Now())
		err = d.c.Guard.SetLists(realm, doc.lists())
	}
	if err != nil { // what cannot be read now will not be better at the next look
		d.c.Log.Error("the operators' lists stay as they were", "realm", realm, "error", err)
	}
	return nil
}
