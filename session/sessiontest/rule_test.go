package sessiontest_test

import (
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/sessiontest"
)

// Every rule finds a driver that breaks it, and says which rule it was.
func TestRulesBite(t *testing.T) {
	rules, bitten := map[string]sessiontest.Rule{}, map[string]bool{}
	for _, rule := range sessiontest.Rules() {
		if _, ok := rules[rule.Name]; ok {
			t.Errorf("two rules are named %s", rule.Name)
		}
		rules[rule.Name] = rule
	}
	for _, m := range mistakes {
		bitten[m.rule] = true
		t.Run(m.rule+"/"+m.name, func(t *testing.T) {
			t.Parallel()
			rule, ok := rules[m.rule]
			require.True(t, ok, m.rule)
			store, shared := memdriver.New(nil), newShared()
			timeout := time.Minute
			if m.name == "holds a lock during the loop" || strings.HasPrefix(m.name, "says nothing") {
				timeout = 100 * time.Millisecond
			}
			err := rule.Check(t.Context(), sessiontest.Storage{
				Open: func() (driver.Driver, error) {
					b := newBroken(memdriver.Reopen(store), shared)
					m.make(b)
					return b, nil
				},
				Shared:  true,
				Timeout: timeout,
			})
			if err == nil {
				t.Fatalf("rule %s does not see that the driver %s", m.rule, m.name)
			}
			s := err.Error()
			require.Contains(t, s, rule.Name)
			require.Contains(t, s, rule.Text)
			require.Contains(t, s, "\n\tseen: ")
			t.Log(err)
		})
	}
	for name := range rules {
		if !bitten[name] {
			t.Errorf("no broken driver shows that rule %s finds anything", name)
		}
	}
}

// unwritten are rules that package driver does not state.
var unwritten = []string{"append/owned", "name/agent", "name/key"}

// The text of a rule is what the documentation of package driver says.
func TestRulesQuoteTheInterface(t *testing.T) {
	var doc strings.Builder
	for _, name := range []string{"driver.go", "name.go", "rewrite.go", "watch.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), "../driver/"+name, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, group := range file.Comments {
			doc.WriteString(group.Text() + "\n")
		}
	}
	words := strings.Join(strings.Fields(doc.String()), " ")
	for _, rule := range sessiontest.Rules() {
		if quoted := strings.Contains(words, rule.Text); quoted == slices.Contains(unwritten, rule.Name) {
			t.Errorf("rule %s: in the documentation of package driver is %v: %s", rule.Name, quoted, rule.Text)
		}
	}
}

// Storage that only one driver may open is never opened twice at a time.
func TestNotShared(t *testing.T) {
	for _, rule := range sessiontest.Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			t.Parallel()
			store, open := memdriver.New(nil), false
			err := rule.Check(t.Context(), sessiontest.Storage{Open: func() (driver.Driver, error) {
				if open {
					return nil, errors.New("opened while it is open")
				}
				open = true
				b := newBroken(memdriver.Reopen(store), nil)
				b.close = func() error {
					open = false
					return b.Driver.Close()
				}
				return b, nil
			}})
			require.NoError(t, err)
		})
	}
}

func TestCheckReportsOpen(t *testing.T) {
	errNo := errors.New("no storage")
	for _, rule := range sessiontest.Rules() {
		err := rule.Check(t.Context(), sessiontest.Storage{Open: func() (driver.Driver, error) { return nil, errNo }})
		if err == nil || !strings.Contains(err.Error(), errNo.Error()) {
			t.Errorf("rule %s: error %v, want one that says %q", rule.Name, err, errNo)
		}
	}
}

// Nobody has to have a turn lock.
func TestCheckSkipsWithoutTurnLock(t *testing.T) {
	for _, rule := range sessiontest.Rules() {
		store := memdriver.New(nil)
		err := rule.Check(t.Context(), sessiontest.Storage{Open: func() (driver.Driver, error) {
			b := newBroken(memdriver.Reopen(store), nil)
			b.lockTurn = func(ctx context.Context, ref driver.Ref, wait bool) (func() error, error) {
				release, err := b.Driver.LockTurn(ctx, ref, wait)
				if err != nil {
					return nil, err
				}
				return nil, errors.Join(release(), fmt.Errorf("turn lock: %w", errors.ErrUnsupported))
			}
			return b, nil
		}})
		turn := strings.HasPrefix(rule.Name, "turn/") || rule.Name == "close/turn" || rule.Name == "archive/turn"
		if turn && !errors.Is(err, errors.ErrUnsupported) || !turn && err != nil {
			t.Errorf("rule %s: error %v", rule.Name, err)
		}
	}
}

// A driver that hangs is reported with the call it hangs in.
func TestCheckReportsDeadlock(t *testing.T) {
	store, stuck := memdriver.New(nil), make(chan struct{})
	defer close(stuck)
	rule := sessiontest.Rules()[0]
	err := rule.Check(t.Context(), sessiontest.Storage{
		Open: func() (driver.Driver, error) {
			b := newBroken(memdriver.Reopen(store), nil)
			b.create = func(ctx context.Context, key driver.KeyRef, header headerFunc, more ...driver.Line) (driver.Row, error) {
				<-stuck
				return b.Driver.Create(ctx, key, header, more...)
			}
			return b, nil
		},
		Timeout: time.Millisecond,
	})
	require.Error(t, err)
	require.Contains(t, err.Error(), "Create or a call after it did not return")
}
