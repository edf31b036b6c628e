package cli

import (
	"context"
	"io"
	"iter"

	"github.com/convolog/convolog/examples/convolog/internal/convert"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// A backend is a store in a folder, in a database or on a server. Commands call its
// methods. The exported methods mean the same as the library's.
type backend interface {
	List(ctx context.Context, opts *session.ListOptions) ([]session.Info, error)
	Search(ctx context.Context, q search.Query) iter.Seq2[search.Hit, error]
	Delete(ctx context.Context, refs ...session.Ref) error
	Removals(ctx context.Context) ([]retain.Removal, error)
	PlanRetention(ctx context.Context, r retain.Policy) (retain.Plan, error)
	Apply(ctx context.Context, plan retain.Plan) (retain.Report, error)
	PlanErase(ctx context.Context, what erase.Erasure) (erase.Plan, error)
	Erase(ctx context.Context, plan erase.Plan) (erase.Receipt, error)
	Close() error

	create(ctx context.Context, key session.Key, opts session.CreateOptions) (session.Info, error)
	describe(ctx context.Context, ref session.Ref) (described, error)
	// move archives, trashes or restores a session.
	move(ctx context.Context, ref session.Ref, how string) error
	add(ctx context.Context, ref session.Ref, role transcript.Role, text string) (session.Appended, error)
	commit(ctx context.Context, ref session.Ref) (memory.Committed, error)
	title(ctx context.Context, ref session.Ref, text string) (session.Info, error)
	fork(ctx context.Context, ref session.Ref, entry string, opts session.CreateOptions) (session.Info, error)
	// hide hides entries, or shows them if off is set, and returns the changed entries.
	hide(ctx context.Context, ref session.Ref, entries []string, off bool) ([]string, error)
	// page returns up to n entries after an entry, or up to -n entries before it.
	page(ctx context.Context, ref session.Ref, entry string, n int) ([]transcript.Entry, error)
	// entry returns one entry of a message.
	entry(ctx context.Context, ref session.Ref, id string) (transcript.Entry, error)
	follow(ctx context.Context, ref session.Ref, after string) iter.Seq2[transcript.Entry, error]
	searchIn(ctx context.Context, ref session.Ref, q search.Query) iter.Seq2[search.Hit, error]
	// decide approves or rejects a held call, by the ID of its entry.
	decide(ctx context.Context, ref session.Ref, entry string, verdict transcript.Verdict, by, reason string) error
	health(ctx context.Context, ref session.Ref) (session.Health, error)
	export(ctx context.Context, ref session.Ref, as, model string, w io.Writer) error

	// file returns the file of a session, or "" if it is not a local file.
	file(i session.Info) string
	// leftovers returns the findings on files outside of sessions.
	leftovers(ctx context.Context) ([]finding, error)
	// repair repairs all repairable findings.
	repair(ctx context.Context) error
	// take imports a file or a folder, and reports on each session.
	take(ctx context.Context, name string, sessions iter.Seq[exchange.Source], opts exchange.ImportOptions, report func(convert.Result) error) error
}

// described holds all data about a session.
type described struct {
	Info    session.Info    `json:"info"`
	Stats   memory.Stats    `json:"stats"`
	Pending rebuild.Pending `json:"pending"`
}
