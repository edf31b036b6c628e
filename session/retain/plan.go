package retain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
)

// A Policy selects sessions to archive or delete: sessions that are too old, and the
// oldest ones beyond a limit. The zero value selects none.
type Policy struct {
	// TTL selects [session.Expired] sessions that have a TTL of their own, see
	// [session.CreateOptions]. Without it they never count as too old.
	TTL bool `json:"ttl,omitempty"`
	// Default is the TTL of sessions without one; 0 means forever. It counts from the
	// last user message, or from the creation of a session without one.
	Default time.Duration `json:"default,omitempty"`

	// MaxSessions is the number of newest sessions that stay, and MaxBytes the number
	// of bytes that their transcripts may have together. With PerOwner both apply to
	// each owner separately. PerKey is the number of sessions that stay for each key. 0
	// means unlimited. Protected sessions stay even beyond a limit. A session dated
	// more than an hour ahead of the clock is never selected and does not count.
	MaxSessions int   `json:"maxSessions,omitempty"`
	MaxBytes    int64 `json:"maxBytes,omitempty"`
	PerOwner    bool  `json:"perOwner,omitempty"`
	PerKey      int   `json:"perKey,omitempty"`

	// Trash is the time that sessions stay in the trash; 0 means 30 days. After that,
	// every plan deletes them.
	Trash time.Duration `json:"trash,omitempty"`

	// Delete deletes the selected sessions, including archived ones. Otherwise they are
	// archived, and archived sessions do not count.
	Delete bool `json:"delete,omitempty"`
	// Keep, if not nil, reports whether to protect a selected session.
	Keep func(session.Info) bool `json:"-"`
	// Force allows a plan for more than a quarter of the sessions, and a plan whose
	// clock went back.
	Force bool `json:"force,omitempty"`
	// Now is the clock; nil means time.Now.
	Now func() time.Time `json:"-"`
}

// A Plan lists the sessions that [Apply] will archive or delete. It is plain data that
// can be shown to a person, stored, and applied later.
type Plan struct {
	At     time.Time `json:"at"`
	Delete bool      `json:"delete,omitempty"` // else archive
	Force  bool      `json:"force,omitempty"`  // see [Policy]
	Of     int       `json:"of"`               // the number of sessions that the policy could select
	Items  []Item    `json:"items"`            // sessions with the oldest messages first, then the trash
	Freed  int64     `json:"freed"`            // bytes of the unprotected transcripts
	// Now is the clock of Apply; nil means time.Now. [Preview] copies it from the policy.
	Now func() time.Time `json:"-"`
}

// An Item is a session of a [Plan]. Apply compares the End of its Info. Its Expires may
// come from [Policy].Default.
type Item struct {
	session.Info
	// Why is the reason for the selection: ttl, count, bytes, or trash. Trash deletes
	// the session.
	Why string `json:"why"`
	// Protected, if set, is the reason why Apply will leave the session alone:
	//   - keep: see [transcript.Meta];
	//   - current: it is the current session of its key, and was not selected by ttl;
	//   - waits: a call is held for a decision, and it was not selected by ttl;
	//   - recent: its last message is less than an hour old;
	//   - kept: by Policy.Keep;
	//   - clock: a clock was corrected after the plan was made, and the session is not too old.
	Protected string `json:"protected,omitempty"`
}

// The values of Item.Why and Item.Protected.
const (
	whyTTL   = "ttl"
	whyCount = "count"
	whyBytes = "bytes"
	whyTrash = "trash"

	hasKeep     = "keep"
	isCurrent   = "current"
	isHeld      = "waits"
	isRecent    = "recent"
	isKept      = "kept"
	clockAlone  = "clock"
	turnRunning = "turn"
)

const (
	recentAge = time.Hour           // the minimum age of the last message of a selected session
	trashAge  = 30 * 24 * time.Hour // the default of Policy.Trash
)

// Preview returns a plan for the sessions that p selects. It changes nothing. Like
// [session.Store.List] it reads the index, and only those transcripts that have changed
// since the index was written.
//
// A wrong clock should not cost sessions. Therefore, without Force, Apply refuses a
// plan for more than a quarter of the sessions, and a plan whose clock went back. Two
// wrong clocks go unnoticed. A fast one costs the sessions that will be too old at the
// time it shows, if they are a quarter or less. A slow one dates messages too early, so
// their sessions look too old once the clock is right.
//
// A negative limit gives a [session.InputError].
func Preview(ctx context.Context, st *session.Store, p Policy) (Plan, error) {
	for name, limit := range map[string]int64{
		"default": int64(p.Default), "trash": int64(p.Trash), "maxSessions": int64(p.MaxSessions), "maxBytes": p.MaxBytes, "perKey": int64(p.PerKey),
	} {
		if limit < 0 {
			return Plan{}, fmt.Errorf("retain: preview: %w", &session.InputError{Member: name, Reason: fmt.Sprintf("the limit is %d", limit)})
		}
	}
	infos, err := st.List(ctx, &session.ListOptions{State: session.EveryState})
	if err != nil {
		return Plan{}, fmt.Errorf("retain: preview: %w", err)
	}
	plan := Plan{Delete: p.Delete, Force: p.Force, Items: []Item{}, Now: p.Now}
	c := choice{Policy: p, now: plan.now()}
	var trashed []Item
	for _, info := range slices.Backward(infos) {
		if info.State == session.Trashed {
			item := Item{Info: info}
			if item.Expires = info.Trashed.Add(cmp.Or(p.Trash, trashAge)); !c.now.Before(item.Expires) {
				item.Why = whyTrash
			}
			trashed = append(trashed, item)
			continue
		}
		if selectable(info, p.Delete) {
			plan.Of++
			if info.UpdatedAt.Sub(c.now) <= recentAge {
				c.all = append(c.all, Item{Info: info})
			}
		}
	}
	c.times()
	c.quotas()
	plan.At = c.now.UTC()
	for _, item := range append(c.all, trashed...) {
		if item.Why == "" {
			continue
		}
		if plan.Items = append(plan.Items, item); item.Protected == "" {
			plan.Freed += item.Size
		}
	}
	return plan, nil
}

// selectable reports whether a plan that deletes, or archives, may select a session.
func selectable(info session.Info, deletes bool) bool {
	return deletes || info.State != session.Archived
}

func (p Plan) now() time.Time {
	if p.Now == nil {
		return time.Now()
	}
	return p.Now()
}

// A choice holds the sessions of one call of Preview.
type choice struct {
	Policy
	now time.Time
	all []Item // sessions with the oldest messages first
}

// times chooses the sessions whose TTL is over.
func (c *choice) times() {
	for i := range c.all {
		item := &c.all[i]
		over := item.Expires // by a TTL of its own
		switch {
		case item.TTL > 0 && !c.TTL, item.TTL <= 0 && c.Default == 0:
			continue
		case item.TTL <= 0:
			if over = item.CreatedAt.Add(c.Default); item.LastUserAt.After(item.CreatedAt) {
				over = item.LastUserAt.Add(c.Default)
			}
		}
		if !c.now.Before(over) {
			item.Expires = over
			c.choose(item, whyTTL)
		}
	}
}

// quotas chooses the oldest sessions beyond the limits.
func (c *choice) quotas() {
	one := func(*Item) int64 { return 1 }
	owner := func(item *Item) string {
		if c.PerOwner {
			return item.Owner
		}
		return ""
	}
	c.quota(int64(c.PerKey), whyCount, one, func(item *Item) string { return fmt.Sprintf("%q", []string{item.Agent, item.Owner, item.Key}) })
	c.quota(int64(c.MaxSessions), whyCount, one, owner)
	c.quota(c.MaxBytes, whyBytes, func(item *Item) int64 { return item.Size }, owner)
}

// quota keeps the newest sessions of each group, up to limit for the sum of their
// costs, and chooses the others.
func (c *choice) quota(limit int64, why string, cost func(*Item) int64, group func(*Item) string) {
	if limit == 0 {
		return
	}
	sums := map[string]int64{}
	for i := range slices.Backward(c.all) {
		item := &c.all[i]
		if item.Why != "" && item.Protected == "" {
			continue // already chosen
		}
		if g := group(item); sums[g]+cost(item) > limit {
			sums[g] = limit // no older session has room
			c.choose(item, why)
		} else {
			sums[g] += cost(item)
		}
	}
}

func (c *choice) choose(item *Item, why string) {
	item.Why, item.Protected = why, protection(item.Info, item.Expires, why, c.now)
	if item.Protected == "" && c.Keep != nil && c.Keep(item.Info) {
		item.Protected = isKept
	}
}

// protection returns the reason to leave a session alone, if there is one.
func protection(info session.Info, over time.Time, why string, now time.Time) string {
	switch {
	case (why == whyTTL || why == whyTrash) && now.Before(over): // a clock was corrected
		return clockAlone
	case why == whyTrash:
		return ""
	case info.Keep:
		return hasKeep
	case info.Current && why != whyTTL:
		return isCurrent
	case info.Waits == rebuild.WaitApproval && why != whyTTL:
		return isHeld
	case now.Sub(info.UpdatedAt) < recentAge:
		return isRecent
	}
	return ""
}

// ErrForce reports that a plan is for more than a quarter of the sessions, or that the
// clock went back. Nothing was done.
var ErrForce = errors.New("the plan is for more than a quarter of the sessions, or the clock went back: check the plan, and set its Force if it is right")

// check returns an error if the plan must not be applied.
func (p Plan) check() error {
	n := p.due() - p.trash()
	if !p.Force && 4*n > p.Of {
		return fmt.Errorf("%w (%d of %d)", ErrForce, n, p.Of)
	}
	return p.checkClock(p.At)
}

// checkClock returns an error if the clock is well before a past time.
func (p Plan) checkClock(past time.Time) error {
	if now := p.now(); !p.Force && now.Add(recentAge).Before(past) {
		return fmt.Errorf("%w (it is %s, and was %s)", ErrForce, now.UTC().Format(time.RFC3339), past.UTC().Format(time.RFC3339))
	}
	return nil
}

// due returns the number of sessions that are not protected.
func (p Plan) due() (n int) {
	for _, item := range p.Items {
		if item.Protected == "" {
			n++
		}
	}
	return n
}

// trash returns the number of sessions in the trash whose time is over.
func (p Plan) trash() (n int) {
	for _, item := range p.Items {
		if item.Why == whyTrash {
			n++
		}
	}
	return n
}

// String returns the plan as lines for a person. Titles and keys are quoted.
func (p Plan) String() string {
	var sb strings.Builder
	verb := "archive"
	if p.Delete {
		verb = "delete"
	}
	fmt.Fprintf(&sb, "%s %d of %d sessions", verb, p.due()-p.trash(), p.Of)
	if n := p.trash(); n > 0 {
		fmt.Fprintf(&sb, ", delete %d in the trash", n)
	}
	fmt.Fprintf(&sb, ", %d bytes\n", p.Freed)
	for _, item := range p.Items {
		why := item.Why
		if why == whyTTL || why == whyTrash {
			why += " over " + item.Expires.UTC().Format(time.RFC3339)
		}
		if item.Protected != "" {
			why += ", stays: " + item.Protected
		}
		fmt.Fprintf(&sb, "  %q %s %q %q %d bytes: %s\n", item.Agent, item.ID, item.Key, cmp.Or(item.Title, "(no title)"), item.Size, why)
	}
	if err := p.check(); err != nil {
		fmt.Fprintf(&sb, "not applied: %v\n", err)
	}
	return sb.String()
}
