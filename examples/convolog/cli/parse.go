package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/convolog/convolog/examples/internal/home"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript/redact"
)

const (
	defaultDir = home.Default
	defaultURL = "http://localhost:1933"
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
	last            int
	full, regexp    bool
	within, state   string
	as, model, to   string
	from, zone      string
	times           *time.Location // of zone; nil means UTC
	after           string
	yes, dryRun     bool
	now             bool
	repair, page    bool
	mask, waits     bool
	addr, memories  string
}

// filters returns the filters that the flags select.
func (o *options) filters() (list []session.Filter) {
	if o.mask {
		list = append(list, session.Redact(redact.Secrets))
	}
	return list
}

// A flagDef is a flag of some commands.
type flagDef struct {
	name, arg, help string
	bind            func(o *options) any // returns a pointer to the field of its value
}

// everywhere are the flags of all commands.
const everywhere = "dir url token json"

var flagDefs = []flagDef{
	{"dir", "FOLDER", "the folder of the store; the default is " + defaultDir, func(o *options) any { return &o.dir }},
	{"url", "[URL]", "use a server; the default URL is " + defaultURL, nil},
	{"token", "TOKEN", "the token of the server; the default is CONVOLOG_TOKEN", func(o *options) any { return &o.token }},
	{"json", "", "print JSON, for scripts", func(o *options) any { return &o.json }},

	{"agent", "NAME", "only sessions of this agent", func(o *options) any { return &o.list.Agent }},
	{"owner", "NAME", "only sessions of this owner", func(o *options) any { return &o.list.Owner }},
	{"label", "LABEL", "only sessions with this label", func(o *options) any { return &o.list.Label }},
	{"state", "STATE", "live (the default), expired, archived, trashed or any", func(o *options) any { return &o.state }},
	{"waits", "", "only sessions with unfinished work", func(o *options) any { return &o.waits }},
	{"limit", "N", "show at most N results", func(o *options) any { return &o.list.Limit }},

	{"id", "ID", "the ID of the new session; the default is a new ID", func(o *options) any { return &o.create.ID }},
	{"title", "TEXT", "the title of the new session", func(o *options) any { return &o.create.Title }},
	{"for", "OWNER", "the owner of the new sessions", func(o *options) any { return &o.create.Owner }},

	{"role", "ROLE", "user or assistant", func(o *options) any { return &o.role }},
	{"content", "TEXT", "the text; - reads the standard input", func(o *options) any { return &o.content }},
	{"last", "N", "only the last N entries", func(o *options) any { return &o.last }},
	{"full", "", "do not shorten calls, results and reasoning", func(o *options) any { return &o.full }},
	{"after", "ENTRY", "begin after this entry", func(o *options) any { return &o.after }},

	{"in", "SESSION", "search only this session", func(o *options) any { return &o.within }},
	{"regexp", "", "the words are a regular expression", func(o *options) any { return &o.regexp }},
	{"ranked", "", "best hits first; a hit needs only one of the words", func(o *options) any { return &o.query.Ranked }},
	{"tool", "NAME", "only calls of this tool and their results", func(o *options) any { return &o.query.Tool }},

	{"older-than", "TIME", "sessions without a message for this time, such as 30d", func(o *options) any { return &o.retention.Default }},
	{"trash-for", "TIME", "time that sessions stay in the trash; default 30d", func(o *options) any { return &o.retention.Trash }},
	{"ttl", "", "sessions whose own lifetime is over", func(o *options) any { return &o.retention.TTL }},
	{"max-sessions", "N", "the oldest sessions beyond N", func(o *options) any { return &o.retention.MaxSessions }},
	{"max-bytes", "N", "the oldest sessions beyond N bytes", func(o *options) any { return &o.retention.MaxBytes }},
	{"per-key", "N", "the oldest sessions of each key beyond N", func(o *options) any { return &o.retention.PerKey }},
	{"per-owner", "", "apply the limits to each owner separately", func(o *options) any { return &o.retention.PerOwner }},
	{"delete", "", "delete instead of archiving, even archived sessions", func(o *options) any { return &o.retention.Delete }},
	{"force", "", "allow large plans, and trust the clock", func(o *options) any { return &o.retention.Force }},
	{"n", "", "change nothing, and only show the plan", func(o *options) any { return &o.dryRun }},
	{"now", "", "delete for good; on a terminal it asks without --yes", func(o *options) any { return &o.now }},
	{"yes", "", "do it; without --yes erase only shows the plan", func(o *options) any { return &o.yes }},
	{"repair", "", "make the safe repairs", func(o *options) any { return &o.repair }},

	{"mask", "", "mask secrets in the store, now and in all later writes", func(o *options) any { return &o.mask }},
	{"as", "FORM", "jsonl, markdown, html, anthropic, gemini ...", func(o *options) any { return &o.as }},
	{"to", "FORM", "the form: native, markdown, zyhive, anthropic ...", func(o *options) any { return &o.to }},
	{"from", "FORM", "the form of JSON arrays: openai-chat, gemini ...", func(o *options) any { return &o.from }},
	{"zone", "ZONE", "the zone of times without one, such as Europe/Lisbon", func(o *options) any { return &o.zone }},
	{"model", "NAME", "the model in requests", func(o *options) any { return &o.model }},
	{"addr", "ADDRESS", "the address; the default is 127.0.0.1:1933", func(o *options) any { return &o.addr }},
	{"memories", "URL", "extract memories: the URL of an Anthropic-like service", func(o *options) any { return &o.memories }},
	{"page", "", "also serve a page for browsers at /", func(o *options) any { return &o.page }},
}

func flagsOf(names string) (defs []flagDef) {
	for _, d := range flagDefs {
		if slices.Contains(strings.Fields(names), d.name) {
			defs = append(defs, d)
		}
	}
	return defs
}

func (o *options) set(names string) *flag.FlagSet {
	set := flag.NewFlagSet("convolog", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	for _, d := range flagsOf(names) {
		if d.bind != nil {
			bind(set, d.name, d.bind(o))
			continue
		}
		set.BoolFunc(d.name, "", func(v string) error {
			switch o.url = v; v {
			case "":
				return errors.New("it is empty: is a variable not set?")
			case "true":
				o.url = defaultURL
			}
			return nil
		})
	}
	return set
}

func bind(set *flag.FlagSet, name string, value any) {
	switch v := value.(type) {
	case *string:
		set.StringVar(v, name, *v, "")
	case *bool:
		set.BoolVar(v, name, *v, "")
	case *int:
		set.IntVar(v, name, *v, "")
	case *int64:
		set.Int64Var(v, name, *v, "")
	case *time.Duration:
		set.Func(name, "", func(text string) (err error) {
			*v, err = duration(text)
			return err
		})
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

// parse reads a command line. Flags may be anywhere before --.
func parse(args []string, con *console) (*call, error) {
	c := &call{console: con, options: &options{dir: defaultDir, token: con.getenv("CONVOLOG_TOKEN"), addr: "127.0.0.1:1933"}, command: &command{}}
	args, literal := joinURL(args), []string(nil)
	if i := slices.Index(args, "--"); i >= 0 {
		args, literal = args[:i], args[i+1:]
	}
	name, args, err := c.commandName(args)
	if err != nil {
		return c, err
	}
	if c.command = find(name); c.command == nil {
		c.command = &command{}
		return c, usageError{fmt.Sprintf("there is no command %q", name), "help"}
	}
	for {
		if args, err = c.flags(args, everywhere+" "+c.command.flags); err != nil {
			return c, err
		}
		if len(args) == 0 {
			break
		}
		c.args, args = append(c.args, args[0]), args[1:]
	}
	c.args = append(c.args, literal...)
	return c, c.check()
}

// commandName reads the name of the command, and returns the remaining arguments.
func (c *call) commandName(args []string) (name string, rest []string, err error) {
	help := []string(nil)
	for rest = args; err == nil; {
		rest, err = c.flags(rest, everywhere)
		switch {
		case err != nil:
		case len(rest) == 0:
			return "", nil, errHelp
		case name == "" && rest[0] == "help":
			help, rest = []string{"-h"}, rest[1:]
		case name == "" && rest[0] == "session":
			name, rest = "session ", rest[1:]
		default:
			return name + rest[0], append(help, rest[1:]...), nil
		}
	}
	return "", nil, err
}

// flags reads the flags at the beginning of args, and returns the remaining arguments.
func (c *call) flags(args []string, names string) ([]string, error) {
	set := c.set(names)
	err := set.Parse(args)
	switch {
	case err == nil:
		return set.Args(), nil
	case errors.Is(err, flag.ErrHelp):
		return nil, errHelp
	}
	text := strings.Replace(err.Error(), "flag provided but not defined: ", "there is no flag ", 1)
	return nil, usageError{text, strings.TrimSpace("help " + c.command.name)}
}

// joinURL joins --url and a following URL into one argument.
func joinURL(args []string) []string {
	args = slices.Clone(args)
	for i := 0; i+1 < len(args) && args[i] != "--"; i++ {
		if (args[i] == "--url" || args[i] == "-url") && strings.Contains(args[i+1], "://") {
			args = slices.Replace(args, i, i+2, args[i]+"="+args[i+1])
		}
	}
	return args
}

func (c *call) check() error {
	words := strings.Fields(c.command.args)
	most := len(words)
	least := most - strings.Count(c.command.args, "[")
	switch {
	case len(c.args) < least:
		return c.wrong("an argument is missing: convolog %s %s", c.command.name, c.command.args)
	case len(c.args) > most && !strings.Contains(c.command.args, "..."):
		return c.wrong("the argument %q is too much: convolog %s", c.args[most], strings.TrimSpace(c.command.name+" "+c.command.args))
	case slices.Contains(c.args, "") && c.command.name != "title":
		return c.wrong("an argument is empty: is a variable not set?")
	case c.list.Limit < 0 || c.last < 0:
		return c.wrong("a number is less than 0")
	}
	if c.zone != "" {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			return c.wrong("there is no time zone %q: name one such as Europe/Lisbon", c.zone)
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
		return c.wrong("there is no state %q, only live, expired, archived, trashed and any", c.state)
	}
	return nil
}

func (c *call) wrong(format string, args ...any) error {
	return usageError{fmt.Sprintf(format, args...), "help " + c.command.name}
}
