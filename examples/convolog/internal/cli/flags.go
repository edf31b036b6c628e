package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript/redact"
)

// A call is a parsed command line.
type call struct {
	*console
	*options
	command *command
	args    []string
	backend backend
	ref     session.Ref // the session that the first argument names
}

// options are the values of all flags.
type options struct {
	dir, url, token string
	json            bool
	list            session.ListOptions
	create          session.CreateOptions
	retention       retain.Policy
	query           search.Query
	role, content   string
	last, window    int
	full, regexp    bool
	within, state   string
	format, model   string
	from, to, zone  string
	times           *time.Location // of zone; nil means UTC
	after           string
	yes, dryRun     bool
	now             bool
	repair, page    bool
	mask, waits     bool
	addr, memories  string
	reason          string
}

// filters returns the filters that the flags select.
func (o *options) filters() (list []session.Filter) {
	if o.mask {
		list = append(list, session.Redact(redact.Secrets))
	}
	return list
}

// A flagDef is a flag of some commands. In help, the word in backquotes is its value.
type flagDef struct {
	name, help string
	bind       func(o *options) any // returns a pointer to the field of its value
}

// everywhere are the flags of all commands.
const everywhere = "dir url token json"

var flagDefs = []flagDef{
	{"dir", "the `FOLDER` of the store", func(o *options) any { return &o.dir }},
	{"url", "`URL` of a server or a database, http or postgres", func(o *options) any { return &o.url }},
	{"token", "the `TOKEN` of the server, else CONVOLOG_TOKEN", func(o *options) any { return &o.token }},
	{"json", "print JSON, for scripts", func(o *options) any { return &o.json }},

	{"agent", "only sessions of the agent `NAME`", func(o *options) any { return &o.list.Agent }},
	{"owner", "only sessions of the owner `NAME`", func(o *options) any { return &o.list.Owner }},
	{"label", "only sessions with `LABEL`", func(o *options) any { return &o.list.Label }},
	{"state", "`STATE` is live, expired, archived, trashed or any", func(o *options) any { return &o.state }},
	{"waits", "only sessions with unfinished work", func(o *options) any { return &o.waits }},
	{"limit", "show at most `N` results", func(o *options) any { return &o.list.Limit }},

	{"id", "the `ID` of the new session; the default is a new one", func(o *options) any { return &o.create.ID }},
	{"title", "the title of the new session, a `TEXT`", func(o *options) any { return &o.create.Title }},
	{"for", "`NAME` is the owner of the new sessions", func(o *options) any { return &o.create.Owner }},

	{"role", "`ROLE` is user or assistant", func(o *options) any { return &o.role }},
	{"content", "the `TEXT`; - reads the standard input", func(o *options) any { return &o.content }},
	{"last", "only the last `N` entries", func(o *options) any { return &o.last }},
	{"full", "do not shorten calls, results and reasoning", func(o *options) any { return &o.full }},
	{"after", "begin after the entry `ID`", func(o *options) any { return &o.after }},

	{"in", "search only `SESSION`", func(o *options) any { return &o.within }},
	{"regexp", "the words are a regular expression", func(o *options) any { return &o.regexp }},
	{"ranked", "best hits first; a hit needs only one of the words", func(o *options) any { return &o.query.Ranked }},
	{"tool", "only calls of the tool `NAME` and their results", func(o *options) any { return &o.query.Tool }},

	{"older-than", "sessions without a message for `TIME`, such as 30d", func(o *options) any { return &o.retention.Default }},
	{"trash-for", "the `TIME` of sessions in the trash (default 30d)", func(o *options) any { return &o.retention.Trash }},
	{"ttl", "sessions whose own lifetime is over", func(o *options) any { return &o.retention.TTL }},
	{"max-sessions", "the oldest sessions beyond `N`", func(o *options) any { return &o.retention.MaxSessions }},
	{"max-bytes", "the oldest sessions beyond `N` bytes", func(o *options) any { return &o.retention.MaxBytes }},
	{"per-key", "the oldest sessions of each key beyond `N`", func(o *options) any { return &o.retention.PerKey }},
	{"per-owner", "apply the limits to each owner separately", func(o *options) any { return &o.retention.PerOwner }},
	{"delete", "delete instead of archiving, even archived sessions", func(o *options) any { return &o.retention.Delete }},
	{"force", "allow large plans, and trust the clock", func(o *options) any { return &o.retention.Force }},
	{"dry-run", "change nothing, and only show the plan", func(o *options) any { return &o.dryRun }},
	{"now", "delete for good", func(o *options) any { return &o.now }},
	{"yes", "do not ask", func(o *options) any { return &o.yes }},
	{"repair", "make the safe repairs", func(o *options) any { return &o.repair }},
	{"reason", "the `TEXT` is kept, and is the result of a rejected call", func(o *options) any { return &o.reason }},

	{"mask", "mask secrets in the store, now and in all later writes", func(o *options) any { return &o.mask }},
	{"format", "the `FORMAT`, such as markdown or gemini", func(o *options) any { return &o.format }},
	{"to", "`FORMAT` is native, markdown, zyhive, anthropic ...", func(o *options) any { return &o.to }},
	{"from", "the `FORMAT` of JSON arrays: openai-chat, gemini ...", func(o *options) any { return &o.from }},
	{"zone", "the `ZONE` of times without one, such as Europe/Lisbon", func(o *options) any { return &o.zone }},
	{"model", "the model `NAME` in requests", func(o *options) any { return &o.model }},
	{"window", "context window in `TOKENS`; 0: unknown", func(o *options) any { return &o.window }},
	{"addr", "the `ADDRESS` to serve", func(o *options) any { return &o.addr }},
	{"memories", "extract memories; `URL` is an Anthropic-like service", func(o *options) any { return &o.memories }},
	{"page", "also serve a page for browsers at /", func(o *options) any { return &o.page }},
}

// addFlags adds the named flags to a set.
func (o *options) addFlags(set *pflag.FlagSet, names string) {
	for name := range strings.FieldsSeq(names) {
		d := flagDefs[slices.IndexFunc(flagDefs, func(d flagDef) bool { return d.name == name })]
		short := map[string]string{"dry-run": "n"}[d.name]
		switch v := d.bind(o).(type) {
		case *string:
			set.StringVarP(v, d.name, short, *v, d.help)
		case *bool:
			set.BoolVarP(v, d.name, short, *v, d.help)
		case *int:
			set.IntVarP(v, d.name, short, *v, d.help)
		case *int64:
			set.Int64VarP(v, d.name, short, *v, d.help)
		case *time.Duration:
			set.FuncP(d.name, short, d.help, func(text string) (err error) {
				*v, err = duration(text)
				return err
			})
		}
	}
}

func duration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 0 || n > 36500 {
			return 0, errors.New("it is not a valid number of days")
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, errors.New("write it as 30d or 12h")
	}
	return d, nil
}

// check checks the arguments and the flags.
func (c *call) check(cmd *cobra.Command) error {
	words := strings.Fields(c.command.args)
	switch {
	case len(c.args) < len(words)-strings.Count(c.command.args, "["):
		return wrong("an argument is missing: %s", cmd.UseLine())
	case len(c.args) > len(words) && !strings.Contains(c.command.args, "..."):
		return wrong("unexpected argument %q: %s", c.args[len(words)], cmd.UseLine())
	case slices.Contains(c.args, "") && c.command.name != "session title":
		return wrong("an argument is empty: is a variable not set?")
	case cmd.Flags().Changed("url") && c.url == "":
		return wrong("--url is empty: is a variable not set?")
	case cmd.Flags().Changed("url") && c.command.access == files:
		return wrong("%s works on files, not over a server: leave out --url", c.command.name)
	case c.list.Limit < 0 || c.last < 0:
		return wrong("a number is less than 0")
	}
	if c.zone != "" {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			return wrong("there is no time zone %q: name one such as Europe/Lisbon", c.zone)
		}
		c.times = zone
	}
	if c.waits {
		c.list.Waits = rebuild.WaitAny
	}
	switch c.list.State = session.State(c.state); c.state {
	case "", "live":
		c.list.State = session.Live
	case "any":
		c.list.State = session.AnyState
	case string(session.Archived), string(session.Trashed), string(session.Expired):
	default:
		return wrong("there is no state %q, only live, expired, archived, trashed and any", c.state)
	}
	return nil
}

func wrong(format string, args ...any) error {
	return usageError(fmt.Sprintf(format, args...))
}
