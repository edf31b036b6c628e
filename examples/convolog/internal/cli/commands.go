package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/convolog/convolog/examples/internal/home"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
)

// Decisions:
//
// Commands use a backend: a folder, a database, or the routes of session/serve. One table
// of tests runs each command over a folder and over a server. doctor opens a store for
// reading. It repairs by opening the store for writing, so no code of doctor changes a
// transcript. convert imports into memory and exports from there.

// access is the use of the store by a command.
type access int

const (
	changes access = iota // changes an existing store
	looks                 // reads an existing store, and changes no file
	looksOr               // like looks without arguments; with arguments uses no store
	makes                 // changes a store, and makes it if it is missing
	files                 // opens the stores or files itself
)

// A command is a row of the table of all commands.
type command struct {
	name, args string
	flags      string // in addition to the flags of all commands
	access     access
	json       string // the output with --json
	help       string // the first sentence is the summary
	do         func(context.Context, *call) error
}

const (
	newFlags  = "id title for"
	listFlags = "agent owner label state"
)

// Outputs with --json.
const (
	array  = "an array"
	object = "an object"
	lines  = "a line for each entry"
)

func commands() []command {
	return []command{
		{"session list", "", listFlags + " waits limit", looks, array, "List sessions. The newest message comes first.", listSessions},
		{"session new", "[KEY]", newFlags + " mask", makes, object, "Make a session and print its ID. Without KEY it gets a new key.", newSession},
		{"session get", "SESSION", "", looks, object, "Describe a session: its names, numbers, pending work.", getSession},
		{"session show", "SESSION", "last full", looks, lines, "Print the whole conversation.", show},
		{"session follow", "SESSION", "after full", looks, lines, "Print the conversation and new entries, until Ctrl-C.", follow},
		{"session search", "WORDS...", "in regexp ranked role tool agent owner limit", looks, "a line for each hit", "Find texts, even compacted ones. word* finds words that begin so; \"a phrase\" is in quotes.", searchTexts},
		{"session title", "SESSION [TEXT]", "", changes, object, "Print the title, or set it.", title},
		{"session add-message", "SESSION", "role content", changes, object, "Append a message.", addMessage},
		{"session fork", "SESSION [ENTRY]", newFlags, changes, object, "Make a session that begins like this one. It ends with ENTRY, or at the end.", fork},
		{"session hide", "SESSION ENTRY...", "", changes, array, "Leave messages out of the history. Their calls and results leave it as well.", hide},
		{"session unhide", "SESSION ENTRY...", "", changes, array, "Show hidden messages again.", hide},
		{"session commit", "SESSION", "", changes, object, "Close a chapter of messages. Memories are made from it.", commit},
		{"session export", "SESSION", "format model", looks, "the lines of the session", "Write a session to the standard output.", export},
		{"session stats", "[SESSION]", listFlags, looks, object, "Count turns, tokens, compactions. Without SESSION it counts all sessions.", stats},
		{"session usage", "[SESSION]", listFlags, looks, object, "Sum up the tokens of answers by model. Without SESSION it counts all sessions, even deleted ones.", usage},
		{"session archive", "SESSION", "", changes, object, "Compress a session. You can still read and search it.", moveSession},
		{"session restore", "SESSION", "", changes, object, "Bring a session back from the archive or the trash.", moveSession},
		{"session delete", "SESSION", "now yes", changes, object, "Put a session into the trash. With --now delete it for good, after a question.", deleteSession},
		{"session removed", "", "agent owner", looks, array, "List deleted sessions with their time, rule and size.", removed},

		{"pending", "", "agent owner full", looks, array, "List the work that waits: held calls, missing results and answers.", pending},
		{"approve", "SESSION CALL", "reason", changes, object, "Allow a held call. CALL is the ID of the call or of its entry, or an end of it.", decide},
		{"reject", "SESSION CALL", "reason", changes, object, "Refuse a held call. The model sees the reason as the result. CALL is as for approve.", decide},

		{"chat", "[SESSION]", "model window", makes, "no JSON", "Talk to a model in the terminal. Without SESSION it continues main:cli:user. Without --model a script answers; keys are in ANTHROPIC_API_KEY and OPENAI_API_KEY.", talk},

		{"prune", "", "older-than trash-for ttl max-sessions max-bytes per-key per-owner delete force dry-run yes", changes, object, "Archive or delete old and surplus sessions, and empty the trash. Look at the plan with -n first. --delete asks.", prune},
		{"erase", "[SESSION] [ENTRY...]", "owner dry-run yes", changes, object, "Erase the data of an owner, a session or entries, for good. It shows every place with such data, and asks. With -n it only shows the places.", eraseData},
		{"doctor", "[FILE|FOLDER...]", "repair", looksOr, object, "Explain damage in the store, or in transcripts of any program. It changes nothing without --repair.", doctor},
		{"import", "FILE|FOLDER...", "for from zone dry-run mask", makes, object, "Import sessions of this or another program into the store. Run it again for new entries. -n only lists the losses.", importSessions},
		{"inspect", "FILE|FOLDER...", "", files, "a line for each file", "Inspect transcripts of any program: entries, damage, the request.", inspectFiles},
		{"convert", "FROM... FOLDER", "to for from zone model dry-run", files, object, "Write transcripts in another format to a folder. --to native imports them. No file is overwritten. -n only lists the losses.", convertFiles},
		{"copy", "FROM TO", "dry-run", files, object, "Copy all sessions of a store to another one. Run it again to add new lines, or to continue a killed copy.", copyStore},
		{"merge", "FROM TO", "dry-run", files, object, "Merge a store or one transcript into a store. The transcript may be a conflict copy of a sync program. A session that both have continued gets a fork. Nothing is deleted.", copyStore},
		{"serve", "", "dir token addr page memories model mask", files, object, "Serve the folder over HTTP, for holders of the token. Without a token, make one. With --memories, a commit extracts memories with --model and the key in ANTHROPIC_API_KEY.", serveFolder},
		{"version", "", "", files, object, "Print the version of this program.", printVersion},
	}
}

const about = `convolog shows and maintains conversations in a folder, in a database or over
HTTP.

SESSION is a key, an ID, or 4 letters of its end or beginning. With --json a
command prints JSON: its help has the form; errors are {"error":"...","exit":1}.
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 doctor has findings`

// root returns the program as a command of cobra, for a command line.
func (c *call) root(args []string) *cobra.Command {
	cobra.EnableCommandSorting = false
	c.dir, c.addr, c.format, c.window = home.Default, "127.0.0.1:1933", "jsonl", 180_000
	root, sessions := group("convolog", ""), group("session", "Work with sessions, mostly a single one")
	root.Long, root.Version, root.SilenceErrors, root.SilenceUsage = about, buildVersion().Version, true, true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
			return unknown(cmd, args)
		}
		return usageError(err.Error())
	})
	c.addFlags(root.PersistentFlags(), everywhere)
	c.token = c.getenv("CONVOLOG_TOKEN") // not the default, which help prints
	root.AddCommand(sessions)
	rows := commands()
	if i := slices.IndexFunc(rows, func(row command) bool { return strings.HasPrefix(strings.Join(args, " ")+" ", row.name+" ") }); i >= 0 {
		rows = rows[i : i+1] // a clear command needs no others, and starts sooner
		root.CompletionOptions.DisableDefaultCmd = true
	}
	for _, row := range rows {
		parent, name := root, row.name
		if after, ok := strings.CutPrefix(name, "session "); ok {
			parent, name = sessions, after
		}
		parent.AddCommand(c.leaf(name, row))
	}
	root.SetArgs(args)
	root.SetOut(c.console)
	root.SetErr(c.err)
	root.SetHelpCommand(&cobra.Command{
		Use: "help [COMMAND]", Short: "Show the help of a command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err == nil && len(rest) > 0 {
				return unknown(cmd, rest)
			}
			cmd.InitDefaultHelpFlag()
			cmd.InitDefaultVersionFlag()
			return cmp.Or(err, cmd.Help())
		},
	})
	return root
}

// group returns a command that only has commands below it.
func group(name, short string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Args: cobra.ArbitraryArgs, SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknown(cmd, args)
			}
			return cmd.Help()
		},
	}
}

// unknown returns the error for a command that does not exist, with similar names.
func unknown(cmd *cobra.Command, args []string) error {
	text := fmt.Sprintf("there is no command %q", strings.TrimPrefix(cmd.CommandPath()+" "+args[0], "convolog "))
	var like []string
	for _, parent := range append([]*cobra.Command{cmd}, cmd.Commands()...) {
		for _, name := range parent.SuggestionsFor(args[0]) {
			like = append(like, parent.CommandPath()+" "+name)
		}
	}
	if len(like) > 0 {
		text += "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return usageError(text)
}

// leaf returns the command of cobra for a row.
func (c *call) leaf(name string, row command) *cobra.Command {
	short, _, _ := strings.Cut(row.help, ". ")
	cmd := &cobra.Command{
		Use: strings.TrimSpace(name + " " + row.args), Short: strings.TrimSuffix(short, "."),
		Args: cobra.ArbitraryArgs, // check has better errors
		RunE: func(cmd *cobra.Command, args []string) error {
			c.command, c.args = &row, args
			if err := c.check(cmd); err != nil {
				return err
			}
			return c.run(cmd.Context())
		},
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		cmd.Long = wrap(row.help+" With --json it prints "+row.json+".", columns)
		for name := range strings.FieldsSeq("dir url token") {
			cmd.Root().PersistentFlags().Lookup(name).Hidden = row.access == files && !slices.Contains(strings.Fields(row.flags), name)
		}
		cmd.Root().HelpFunc()(cmd, args)
	})
	if !strings.Contains(row.args, "F") { // FILE, FOLDER and FROM are files
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) >= len(strings.Fields(row.args)) || !row.namesSession() {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			c.command = &row
			return c.completions(cmd.Context(), args)
		}
	}
	c.addFlags(cmd.Flags(), row.flags)
	return cmd
}

// namesSession reports whether the first argument is a session.
func (row *command) namesSession() bool {
	return strings.HasPrefix(strings.TrimPrefix(row.args, "["), "SESSION")
}

// completions returns the IDs of all sessions for the completion of a shell, or after a
// session the IDs of its held calls.
func (c *call) completions(ctx context.Context, args []string) (list []cobra.Completion, _ cobra.ShellCompDirective) {
	b, err := c.open(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer func() { _ = b.Close() }() // only read
	c.backend = b
	if len(args) == 0 {
		var infos []session.Info
		infos, err = b.List(ctx, &session.ListOptions{State: session.EveryState})
		for _, i := range infos {
			list = append(list, cobra.CompletionWithDesc(cut(i.ID, 0), cut(i.Title, 40)))
		}
	} else if strings.Contains(c.command.args, "CALL") {
		var d described
		if c.ref, err = c.named(ctx, args[0]); err == nil {
			d, err = b.describe(ctx, c.ref)
		}
		for _, call := range d.Pending.Calls {
			if call.State == rebuild.Held {
				list = append(list, cobra.CompletionWithDesc(short(call.Entry), cut(call.Call.Name+" "+string(call.Call.Input), 40)))
			}
		}
	}
	if err != nil {
		return list, cobra.ShellCompDirectiveError
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

func wrap(text string, width int) string {
	var sb strings.Builder
	at := 0
	for word := range strings.FieldsSeq(text) {
		switch n := len(word); {
		case at == 0:
		case at+1+n > width:
			sb.WriteByte('\n')
			at = 0
		default:
			sb.WriteByte(' ')
			at++
		}
		sb.WriteString(word)
		at += len(word)
	}
	return sb.String()
}
