package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/transcript"
)

// totals are the numbers of several sessions.
type totals struct {
	Sessions int            `json:"sessions"`
	States   map[string]int `json:"states"`
	Messages int            `json:"messages"`
	Turns    int            `json:"turns"`
	Tokens   int            `json:"tokens"`
	Bytes    int64          `json:"size"`
}

func stats(ctx context.Context, c *call) error {
	if len(c.args) > 0 {
		d, err := c.backend.describe(ctx, c.ref)
		if err != nil {
			return err
		}
		return c.value(d.Stats, func() {
			c.say("%s, ~%s, %s, %s", count(d.Stats.Turns, "turn"), count(d.Stats.Tokens, "token"), count(d.Stats.Compressions, "compaction"), count(d.Stats.Commits, "commit"))
			c.say("%d contexts and %d skills used, %d memories", d.Stats.Contexts, d.Stats.Skills, d.Stats.Memories)
		})
	}
	infos, err := c.selected(ctx, session.AnyState)
	if err != nil {
		return err
	}
	sum := totals{Sessions: len(infos), States: map[string]int{}}
	for _, i := range infos {
		sum.States[cmp.Or(string(i.State), "live")]++
		sum.Messages, sum.Turns, sum.Tokens, sum.Bytes = sum.Messages+i.Messages, sum.Turns+i.Turns, sum.Tokens+i.Tokens, sum.Bytes+i.Size
	}
	return c.value(sum, func() {
		c.say("%s, %s, %s, ~%s, %s", count(sum.Sessions, "session"), count(sum.Messages, "message"), count(sum.Turns, "turn"), count(sum.Tokens, "token"), count(sum.Bytes, "byte"))
		for _, state := range slices.Sorted(maps.Keys(sum.States)) {
			c.say("%6d %s", sum.States[state], state)
		}
	})
}

// selected returns the sessions that the flags select, and state without --state.
func (c *call) selected(ctx context.Context, state session.State) ([]session.Info, error) {
	opts := c.list
	if c.state == "" {
		opts.State = state
	}
	return c.backend.List(ctx, &opts)
}

func usage(ctx context.Context, c *call) error {
	var infos []session.Info
	var err error
	if len(c.args) > 0 {
		var d described
		d, err = c.backend.describe(ctx, c.ref)
		infos = append(infos, d.Info)
	} else {
		infos, err = c.selected(ctx, session.EveryState)
	}
	if err != nil {
		return err
	}
	sum := session.Usage{}
	add := func(u session.Usage) {
		for model, more := range u {
			sum[model] = sum[model].Plus(more)
		}
	}
	for _, i := range infos {
		add(i.Usage)
	}
	if len(c.args) == 0 && c.state == "" && c.list.Label == "" {
		gone, err := c.removals(ctx)
		if err != nil {
			return err
		}
		for _, r := range gone {
			add(r.Usage)
		}
	}
	return c.value(sum, func() {
		if len(sum) == 0 {
			c.say("No answer has reported its tokens.")
		}
		for _, model := range slices.Sorted(maps.Keys(sum)) {
			u := sum[model]
			c.say("%s: %d answers, %d tokens in, %d from and %d to a cache, %d out", model, u.Answers, u.Input, u.CacheRead, u.CacheWrite, u.Output)
		}
	})
}

// removals returns the deleted sessions that the flags select.
func (c *call) removals(ctx context.Context) ([]retain.Removal, error) {
	all, err := c.backend.Removals(ctx)
	return slices.DeleteFunc(all, func(r retain.Removal) bool {
		return c.list.Agent != "" && r.Agent != c.list.Agent || c.list.Owner != "" && r.Owner != c.list.Owner
	}), err
}

func removed(ctx context.Context, c *call) error {
	all, err := c.removals(ctx)
	if err != nil {
		return err
	}
	return c.value(all, func() {
		if len(all) == 0 {
			c.say("No session was deleted.")
		}
		var rows [][]string
		for _, r := range all {
			rows = append(rows, []string{r.ID, age(r.At, time.Now()), r.Rule, strconv.FormatInt(r.Size, 10)})
		}
		c.table("ID DELETED RULE BYTES", rows)
	})
}

func prune(ctx context.Context, c *call) error {
	r := c.retention
	if r.MaxSessions < 0 || r.MaxBytes < 0 || r.PerKey < 0 {
		return wrong("a limit is less than 0")
	}
	if !r.TTL && r.Default == 0 && r.Trash == 0 && r.MaxSessions == 0 && r.MaxBytes == 0 && r.PerKey == 0 {
		return wrong("choose what to put away: --older-than, --trash-for, --ttl, --max-sessions, --max-bytes or --per-key")
	}
	plan, err := c.backend.PlanRetention(ctx, r)
	if err != nil {
		return err
	}
	show := func() { c.say("%s", strings.TrimSpace(plan.String())) }
	if c.dryRun {
		return c.value(plan, show)
	}
	if r.Delete && slices.ContainsFunc(plan.Items, func(i retain.Item) bool { return i.Protected == "" }) {
		if err := c.confirm(ctx, "Delete these sessions for good?", show); err != nil {
			return err
		}
	}
	c.progress("carrying out the plan for %s", count(len(plan.Items), "session"))
	report, err := c.backend.Apply(ctx, plan)
	if errors.Is(err, retain.ErrForce) {
		return fmt.Errorf("%w\nconvolog prune -n shows the plan; --force carries it out", err)
	}
	shown := c.value(report, func() {
		done := 0
		for _, i := range report.Items {
			if i.Outcome == "done" {
				done++
				continue
			}
			c.say("%s stays: %s", i.ID, cmp.Or(i.Reason, i.Outcome))
		}
		word := map[bool]string{true: "deleted", false: "archived"}[plan.Delete]
		c.say("%s %s, %s.", count(done, "session"), word, count(report.Freed, "byte"))
	})
	return errors.Join(err, shown)
}

func moveSession(ctx context.Context, c *call) error {
	how := strings.TrimPrefix(c.command.name, "session ")
	if err := c.backend.move(ctx, c.ref, how); err != nil {
		return err
	}
	d, err := c.backend.describe(ctx, c.ref)
	return c.describedAs(d.Info, err, how+"d")
}

func eraseData(ctx context.Context, c *call) error {
	what := erase.Erasure{Owner: c.list.Owner}
	c.list.Owner = ""
	if what.Owner == "" && len(c.args) == 0 || what.Owner != "" && len(c.args) > 0 {
		return wrong("name a session, or an owner with --owner, but not both")
	}
	switch len(c.args) {
	case 0:
	case 1:
		what.Sessions = []session.Ref{c.ref}
	default:
		what.Entries = []erase.Selection{{Session: c.ref, Entries: c.args[1:]}}
	}
	plan, err := c.backend.PlanErase(ctx, what)
	if err != nil {
		return err
	}
	if len(c.args) > 1 && len(plan.Places) == 0 {
		return absent("session %s contains none of these entries, so nothing is erased", c.ref.ID)
	}
	show := func() { c.places(plan.Places) }
	if c.dryRun {
		return c.value(plan, show)
	}
	if len(plan.Places) > 0 {
		if err := c.confirm(ctx, "Erase this data for good?", show); err != nil {
			return err
		}
	}
	report, err := c.backend.Erase(ctx, plan)
	if err != nil {
		return err
	}
	return c.value(report, func() {
		c.places(report.Places)
		c.say("The erase cannot reach:")
		for _, beyond := range report.Beyond {
			c.say("  %s", beyond)
		}
	})
}

func (c *call) places(places []transcript.Place) {
	for _, p := range places {
		place := fmt.Sprintf("%-10s %s %s %s%s", p.Kind, p.Session, p.Entry, p.Name, map[bool]string{true: fmt.Sprintf(" (%d)", p.Count)}[p.Count > 1])
		c.say("%s", strings.TrimRight(place, " "))
	}
	if len(places) == 0 {
		c.say("There is nothing to erase.")
	}
}
