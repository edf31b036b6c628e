package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/convolog/convolog/session/driver"
)

// Storage is a place to keep sessions in that a rule is checked on.
type Storage struct {
	// Open opens a driver on the storage. It is called several times, and every
	// driver it returns must find all data of the earlier ones. An error is
	// reported and ends the check.
	Open func() (driver.Driver, error)
	// Shared allows Open while another driver is open on the storage, as a
	// second process would. If it is false, Open is called only after the
	// previous driver was closed, and rules for two drivers use one.
	Shared bool
	// Timeout is how long the check of one rule may take before it is taken
	// for a deadlock; 0 means one minute.
	Timeout time.Duration
}

// A rule is one thing that a [driver.Driver] promises.
type rule struct {
	name string // short and unique
	text string // sentences of the documentation of package driver, with " ... " between them
	run  func(c *check)
}

// rules returns all rules, in the order of the interface.
func rules() []rule {
	return slices.Concat(appendRules, condRules, scanRules, createRules, deleteRules, rowRules, nameRules, turnRules, callRules, watchRules, archiveRules)
}

// TestDriver checks every rule in a subtest of its name. For each rule, storage
// returns an empty storage, or skips the rule.
func TestDriver(t *testing.T, storage func(t *testing.T) Storage) {
	for _, rule := range rules() {
		t.Run(rule.name, func(t *testing.T) {
			err := rule.check(t.Context(), storage(t))
			if errors.Is(err, errors.ErrUnsupported) {
				t.Skip(err)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// maxSeen is how many observations an error lists.
const maxSeen = 20

// check checks the rule on an empty storage. The error is nil if the rule
// holds. Otherwise it quotes the rule and lists the observations against it.
// An error that matches [errors.ErrUnsupported] means that the rule does not
// apply.
//
// The check ends with the timeout of the storage even if a call never returns;
// its goroutines then leak.
func (r rule) check(ctx context.Context, s Storage) error {
	timeout := s.Timeout
	if timeout <= 0 {
		timeout = time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := &check{ctx: ctx, storage: s}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer c.closeAll()
		r.run(c)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		select {
		case <-done:
		case <-time.After(timeout/10 + 10*time.Millisecond):
			c.errorf("%s or a call after it did not return within %v: a deadlock, or a storage that is too slow for Storage.Timeout",
				c.lastCall(), timeout)
		}
	}
	seen, skipped := c.report()
	if len(seen) == 0 {
		return skipped
	}
	n := len(seen)
	if n > maxSeen {
		seen = append(seen[:maxSeen], fmt.Sprintf("and %d more", n-maxSeen))
	}
	return fmt.Errorf("sessiontest: %s is broken:\n\trule: %s\n\tseen: %s", r.name, r.text, strings.Join(seen, "\n\tseen: "))
}
