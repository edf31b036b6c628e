package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/convolog/convolog/session/driver"
)

// Retention says which sessions to archive or delete: those that are too old, and
// the oldest ones beyond a limit. The zero value selects none.
type Retention struct {
	// TTL selects sessions that have a TTL of their own, see [CreateOptions], when
	// they are [Expired]. Without it they never count as too old.
	TTL bool `json:"ttl,omitempty"`
	// Default is the TTL of sessions that have none; 0 is for ever. It counts from
	// the last user message, or from the creation of the session if there is none.
	Default time.Duration `json:"default,omitempty"`

	// MaxSessions is how many sessions stay, the newest, and MaxBytes how many bytes
	// their transcripts may have together; with PerOwner both apply to each owner
	// alone. PerKey is how many sessions of each key stay. 0 is no limit. Protected
	// sessions stay even beyond a limit.
	MaxSessions int   `json:"maxSessions,omitempty"`
	MaxBytes    int64 `json:"maxBytes,omitempty"`
	PerOwner    bool  `json:"perOwner,omitempty"`
	PerKey      int   `json:"perKey,omitempty"`

	// Delete deletes the selected sessions, archived ones too. Otherwise they are
	// archived, and sessions that are already archived do not count.
	Delete bool `json:"delete,omitempty"`
	// Keep, if not nil, reports whether to protect a session that was selected.
	Keep func(Info) bool `json:"-"`
	// Force allows a plan for more than a quarter of the sessions, and trusts the
	// clock.
	Force bool `json:"force,omitempty"`
}

// RetentionPlan says what [Store.Apply] will do. It is plain data, which may be shown
// to a person, stored, and applied later.
type RetentionPlan struct {
	At     time.Time `json:"at"`
	Delete bool      `json:"delete,omitempty"` // else archive
	Force  bool      `json:"force,omitempty"`  // see [Retention]
	Of     int       `json:"of"`               // the number of sessions that could have been selected
	Items  []Planned `json:"items"`            // the one with the oldest message first
	Freed  int64     `json:"freed"`            // bytes of the transcripts of those that are not protected
}

// Planned is a session of a [RetentionPlan]. The Size of its Info is what Apply
// compares, and its Expires may be that of [Retention].Default.
type Planned struct {
	Info
	// Why the session was selected: ttl, count or bytes.
	Why string `json:"why"`
	// Protected says why Apply will leave the session alone:
	//   - pinned: see [transcript.Meta];
	//   - current: it is the current one of its key, and was not selected by ttl;
	//   - recent: its last message is less than an hour old;
	//   - kept: Retention.Keep says so;
	//   - clock: it is too old by the clock, but too few sessions were written to
	//     since then to trust the clock, see [Store.PlanRetention].
	Protected string `json:"protected,omitempty"`
}

// Why a session is planned for, and why it is protected.
const (
	whyTTL   = "ttl"
	whyCount = "count"
	whyBytes = "bytes"

	isPinned    = "pinned"
	isCurrent   = "current"
	isRecent    = "recent"
	isKept      = "kept"
	clockAlone  = "clock"
	turnRunning = "turn"
)

// recentAge is how old the last message of a session must be.
const recentAge = time.Hour

// PlanRetention returns the sessions that r selects. Like [Store.List] it reads the
// index and no transcript but those that the index does not know as they are. It
// changes nothing.
//
// A wrong clock must not cost anybody a session. Therefore a session counts as too
// old only if, after its time was over, one in twenty sessions and at least one were
// written to; in a store that nobody uses, no session becomes too old. And a plan for
// more than a quarter of the sessions is not applied. Force switches off both.
// The rule fails in two cases: sessions that were written to while the clock was slow
// look too old once it is right, and all others do if one in twenty were written to
// while it was fast.
//
// A negative limit gives an error that matches [fs.ErrInvalid].
func (st *Store) PlanRetention(ctx context.Context, r Retention) (RetentionPlan, error) {
	if min(int64(r.Default), int64(r.MaxSessions), r.MaxBytes, int64(r.PerKey)) < 0 {
		return RetentionPlan{}, fmt.Errorf("session: plan retention: a limit of %+v is negative: %w", r, fs.ErrInvalid)
	}
	infos, err := st.list(ctx, &ListOptions{State: AnyState})
	if err != nil {
		return RetentionPlan{}, fmt.Errorf("session: plan retention: %w", err)
	}
	p := planning{Retention: r, now: st.opts.Now()}
	for _, info := range slices.Backward(infos) {
		if r.Delete || info.State != Archived {
			p.all = append(p.all, Planned{Info: info})
		}
	}
	p.vouched = vouched(infos, len(p.all), p.now)
	p.times()
	p.quotas()
	plan := RetentionPlan{At: p.now.UTC(), Delete: r.Delete, Force: r.Force, Of: len(p.all), Items: []Planned{}}
	for _, item := range p.all {
		if item.Why == "" {
			continue
		}
		if plan.Items = append(plan.Items, item); item.Protected == "" {
			plan.Freed += item.Size
		}
	}
	return plan, nil
}

// vouchers is the number of sessions of which one has to be written to so that the
// time of that is believed.
const vouchers = 20

// vouched returns the time since which enough of n sessions were written to, at most
// now. Infos begin with the newest.
func vouched(infos []Info, n int, now time.Time) time.Time {
	if i := n / vouchers; i < len(infos) && infos[i].UpdatedAt.Before(now) {
		return infos[i].UpdatedAt
	}
	return now
}

// planning is one call of PlanRetention.
type planning struct {
	Retention
	now, vouched time.Time
	all          []Planned // the one with the oldest message first
}

// times chooses the sessions whose time is over.
func (p *planning) times() {
	for i := range p.all {
		item := &p.all[i]
		over := item.Expires // by a TTL of its own
		if item.TTL <= 0 {
			over = expires(driver.Row{CreatedAt: item.CreatedAt, LastUserAt: item.LastUserAt}, p.Default)
		}
		if over.IsZero() || p.now.Before(over) || item.TTL > 0 && !p.TTL {
			continue
		}
		item.Expires = over
		p.choose(item, whyTTL)
	}
}

// quotas chooses the oldest of those that are too many.
func (p *planning) quotas() {
	one := func(*Planned) int64 { return 1 }
	owner := func(item *Planned) string {
		if p.PerOwner {
			return item.Owner
		}
		return ""
	}
	p.quota(int64(p.PerKey), whyCount, one, func(item *Planned) string { return item.Agent + "\x00" + item.Key })
	p.quota(int64(p.MaxSessions), whyCount, one, owner)
	p.quota(p.MaxBytes, whyBytes, func(item *Planned) int64 { return item.Size }, owner)
}

// quota chooses the sessions of each group behind the newest ones that have at most
// limit together.
func (p *planning) quota(limit int64, why string, cost func(*Planned) int64, group func(*Planned) string) {
	if limit == 0 {
		return
	}
	sums := map[string]int64{}
	for i := range slices.Backward(p.all) {
		item := &p.all[i]
		if item.Why != "" && item.Protected == "" {
			continue // it goes already
		}
		if g := group(item); sums[g]+cost(item) > limit {
			sums[g] = limit // none that is older has room
			p.choose(item, why)
		} else {
			sums[g] += cost(item)
		}
	}
}

// choose makes an item one of the plan, and says what protects it.
func (p *planning) choose(item *Planned, why string) {
	item.Why, item.Protected = why, protection(item.Info, item.Expires, why, p.now, p.vouched, p.Force)
	if item.Protected == "" && p.Keep != nil && p.Keep(item.Info) {
		item.Protected = isKept
	}
}

// protection returns what protects a session, as far as its row says so.
func protection(info Info, over time.Time, why string, now, vouched time.Time, force bool) string {
	switch {
	case why == whyTTL && now.Before(over): // a clock was corrected
		return clockAlone
	case info.Pinned:
		return isPinned
	case info.Current && why != whyTTL:
		return isCurrent
	case now.Sub(info.UpdatedAt) < recentAge:
		return isRecent
	case why == whyTTL && !force && vouched.Before(over):
		return clockAlone
	}
	return ""
}

// ErrForce reports that a plan is for more than a quarter of the sessions. Nothing
// was done.
var ErrForce = errors.New("the plan is for more than a quarter of the sessions: look at it, and set its Force if it is right")

// check returns why a plan must not be applied, if there is a reason.
func (p RetentionPlan) check() error {
	n := p.due()
	if !p.Force && 4*n > p.Of {
		return fmt.Errorf("%w (%d of %d)", ErrForce, n, p.Of)
	}
	return nil
}

// due is the number of sessions that are not protected.
func (p RetentionPlan) due() (n int) {
	for _, item := range p.Items {
		if item.Protected == "" {
			n++
		}
	}
	return n
}

// String returns the plan as lines for a person. Titles and keys are quoted.
func (p RetentionPlan) String() string {
	var sb strings.Builder
	verb := "archive"
	if p.Delete {
		verb = "delete"
	}
	fmt.Fprintf(&sb, "%s %d of %d sessions, %d bytes\n", verb, p.due(), p.Of, p.Freed)
	for _, item := range p.Items {
		why := item.Why
		if why == whyTTL {
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
