package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/retain"
)

const expireUsage = "Usage: /expire <days> [apply]: show the sessions that nobody has used for that many days, or archive them"

// expire shows or applies a plan. The sessions of this program are few, so the plan
// may be for more than a quarter of them.
func expire(ctx context.Context, r *repl, arg string) error {
	words := strings.Fields(arg)
	if len(words) == 0 || len(words) > 2 || len(words) == 2 && words[1] != "apply" {
		r.out.say(expireUsage)
		return nil
	}
	days, err := strconv.Atoi(words[0])
	if err != nil || days < 1 || days > 36_500 {
		r.out.say(expireUsage)
		return nil
	}
	plan, err := retain.Preview(ctx, r.store, retain.Policy{
		TTL: true, Default: time.Duration(days) * 24 * time.Hour, Force: true,
		Keep: func(i session.Info) bool { return i.Ref == r.session.Ref() },
	})
	if err != nil {
		return err
	}
	if len(words) == 1 {
		r.out.say("%s", strings.TrimSpace(plan.String()))
		return nil
	}
	report, err := retain.Apply(ctx, r.store, plan)
	done := 0
	for _, item := range report.Items {
		if item.Outcome == "done" {
			done++
		}
	}
	r.out.say("Archived: %d session(s), %d bytes. /restore brings one back.", done, report.Freed)
	return err
}

func archive(ctx context.Context, r *repl, query string) error {
	s, err := r.find(ctx, query, "/archive <ID, key or prefix>")
	if err != nil || s == nil {
		return err
	}
	if s.Ref() == r.session.Ref() {
		r.out.say("Cannot archive the current session. Switch first.")
		return nil
	}
	if err := r.store.SetState(ctx, s.Ref(), session.Archived, -1); err != nil {
		return err
	}
	r.out.say("Archived: %s", shortID(s.Ref().ID))
	return nil
}

func restore(ctx context.Context, r *repl, query string) error {
	s, err := r.find(ctx, query, "/restore <ID or prefix>")
	if err != nil || s == nil {
		return err
	}
	if err := r.store.SetState(ctx, s.Ref(), session.Live, -1); err != nil {
		return err
	}
	r.out.say("Restored: %s", shortID(s.Ref().ID))
	return nil
}
