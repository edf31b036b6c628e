package sessiontest

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
)

// Every rule finds a driver that breaks it, and the error names it.
func TestRulesBite(t *testing.T) {
	byName, bitten := map[string]rule{}, map[string]bool{}
	for _, rule := range rules() {
		if _, ok := byName[rule.name]; ok {
			t.Errorf("two rules are named %s", rule.name)
		}
		byName[rule.name] = rule
	}
	for _, m := range mistakes {
		bitten[m.rule] = true
		t.Run(m.rule+"/"+m.name, func(t *testing.T) {
			t.Parallel()
			rule, ok := byName[m.rule]
			require.True(t, ok, m.rule)
			store, shared := memdriver.New(nil), newShared()
			timeout := time.Minute
			if m.name == "holds a lock during the loop" || strings.HasPrefix(m.name, "says nothing") {
				timeout = 100 * time.Millisecond
			}
			err := rule.check(t.Context(), Storage{
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
			require.Contains(t, s, rule.name)
			require.Contains(t, s, rule.text)
			require.Contains(t, s, "\n\tseen: ")
			t.Log(err)
		})
	}
	for name := range byName {
		if !bitten[name] {
			t.Errorf("no broken driver shows that rule %s finds anything", name)
		}
	}
}

// unwritten are rules that package driver does not state.
var unwritten = []string{"append/owned", "name/key"}

// The text of a rule is a quotation of the docs of package driver.
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
	for _, rule := range rules() {
		for text := range strings.SplitSeq(rule.text, " ... ") {
			if quoted := strings.Contains(words, text); quoted == slices.Contains(unwritten, rule.name) {
				t.Errorf("rule %s: in the documentation of package driver is %v: %s", rule.name, quoted, text)
			}
		}
	}
}

// Storage that only one driver may open is never opened twice at once.
func TestNotShared(t *testing.T) {
	for _, rule := range rules() {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			store, open := memdriver.New(nil), false
			err := rule.check(t.Context(), Storage{Open: func() (driver.Driver, error) {
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
	for _, rule := range rules() {
		err := rule.check(t.Context(), Storage{Open: func() (driver.Driver, error) { return nil, errNo }})
		if err == nil || !strings.Contains(err.Error(), errNo.Error()) {
			t.Errorf("rule %s: error %v, want one that says %q", rule.name, err, errNo)
		}
	}
}

// A turn lock is optional.
func TestCheckSkipsWithoutTurnLock(t *testing.T) {
	for _, rule := range rules() {
		store := memdriver.New(nil)
		err := rule.check(t.Context(), Storage{Open: func() (driver.Driver, error) {
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
		turn := strings.HasPrefix(rule.name, "turn/") || rule.name == "close/turn"
		if turn && !errors.Is(err, errors.ErrUnsupported) || !turn && err != nil {
			t.Errorf("rule %s: error %v", rule.name, err)
		}
	}
}

// A driver that hangs is reported with the call it hangs in.
func TestCheckReportsDeadlock(t *testing.T) {
	store, stuck := memdriver.New(nil), make(chan struct{})
	defer close(stuck)
	err := rules()[0].check(t.Context(), Storage{
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
