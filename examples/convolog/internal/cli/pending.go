package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A waiting is one piece of work that waits: for a decision on a call, for the result of a
// call, or for an answer of the model.
type waiting struct {
	Session session.Ref          `json:"session"`
	Title   string               `json:"title,omitempty"`
	Waits   rebuild.Wait         `json:"waits"`
	Call    *rebuild.PendingCall `json:"call,omitempty"`
	User    string               `json:"user,omitempty"` // the texts without an answer
	Since   time.Time            `json:"since,omitzero"` // the time of the call or of the newest message
}

// pending lists the calls of all sessions without a result, and the questions without an
// answer. The errors of sessions that cannot be read come last.
func pending(ctx context.Context, c *call) error {
	opts := c.list
	opts.Waits = rebuild.WaitAny
	infos, failed := c.backend.List(ctx, &opts)
	all := []waiting{}
	for _, i := range infos {
		if err := ctx.Err(); err != nil {
			return err
		}
		list, err := c.waitingIn(ctx, i)
		if !errors.Is(err, fs.ErrNotExist) { // else another process has deleted it
			failed = errors.Join(failed, err)
		}
		all = append(all, list...)
	}
	if failed != nil && len(all) == 0 {
		return failed
	}
	return errors.Join(failed, c.printWaiting(all))
}

// waitingIn returns the work of a session that waits.
func (c *call) waitingIn(ctx context.Context, i session.Info) (all []waiting, _ error) {
	d, err := c.backend.describe(ctx, i.Ref)
	if err != nil {
		return nil, err
	}
	w := waiting{Session: i.Ref, Title: i.Title, Waits: rebuild.WaitAnswer, User: d.Pending.User, Since: i.UpdatedAt}
	for _, call := range d.Pending.Calls {
		if call.State == rebuild.Rejected { // the rejection is its result
			continue
		}
		e, err := c.backend.entry(ctx, i.Ref, call.Entry)
		if err != nil {
			return nil, err
		}
		one := waiting{Session: i.Ref, Title: i.Title, Waits: rebuild.WaitTool, Call: &call, Since: e.Time}
		if call.State == rebuild.Held {
			one.Waits = rebuild.WaitApproval
		}
		all = append(all, one)
	}
	if d.Pending.Waits() == rebuild.WaitAnswer || w.User != "" {
		all = append(all, w)
	}
	return all, nil
}

func (c *call) printWaiting(all []waiting) error {
	if c.json || len(all) == 0 {
		return c.value(all, func() { c.say("Nothing waits.") })
	}
	var rows [][]string
	for _, w := range all {
		id, work := "-", w.User
		if w.Call != nil {
			id, work = short(w.Call.Entry), w.Call.Call.Name+" "+string(w.Call.Call.Input)
		}
		rows = append(rows, []string{short(w.Session.ID), id, age(w.Since, time.Now()), string(w.Waits), cmp.Or(work, w.Title)})
	}
	c.table("SESSION CALL SINCE WAITS-FOR WORK", rows)
	return c.failed
}

// A decision is the output of approve and reject.
type decision struct {
	Session session.Ref        `json:"session"`
	Call    string             `json:"call"` // the ID of its entry
	Verdict transcript.Verdict `json:"verdict"`
}

// callsNamed returns the calls whose own ID or entry ID is name, or else begins or ends so.
func callsNamed(calls []rebuild.PendingCall, name string) (found []rebuild.PendingCall) {
	for _, fits := range []func(id, name string) bool{func(id, name string) bool { return id == name }, begunOrEnded} {
		for _, call := range calls {
			if fits(call.Entry, name) || fits(call.Call.ID, name) {
				found = append(found, call)
			}
		}
		if len(found) > 0 {
			break
		}
	}
	return found
}

func decide(ctx context.Context, c *call) error {
	d, err := c.backend.describe(ctx, c.ref)
	if err != nil {
		return err
	}
	found := callsNamed(d.Pending.Calls, c.args[1])
	switch {
	case len(found) == 0:
		return absent("no call of the session waits with the ID %q: convolog pending lists the calls", c.args[1])
	case len(found) > 1:
		return wrong("%q fits several calls, %s and %s", c.args[1], found[0].Entry, found[1].Entry)
	case found[0].State != rebuild.Held && found[0].State != rebuild.NotStarted:
		return fmt.Errorf("the call %s is already %s%s", found[0].Call.Name, found[0].State, strings.TrimSuffix(" by "+found[0].By, " by "))
	}
	done := decision{c.ref, found[0].Entry, transcript.Verdict(c.command.name)}
	by := cmp.Or(c.getenv("USER"), c.getenv("USERNAME"))
	if err := c.backend.decide(ctx, c.ref, done.Call, done.Verdict, by, c.reason); err != nil {
		return err
	}
	return c.value(done, func() {
		c.say("The call %s is %s.", done.Call, map[transcript.Verdict]string{transcript.Approve: "approved", transcript.Reject: "rejected"}[done.Verdict])
	})
}
