package cli

import (
	"context"
	"fmt"
	"strings"
)

// Decisions:
//
// Commands use a backend: a folder, or the routes of session/serve. One table of tests
// runs each command over both. doctor opens a store for reading. It repairs by opening the
// store for writing, so no code of doctor changes a transcript. convert imports into
// memory and exports from there.

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
	help       string
	do         func(context.Context, *call) error
}

const (
	newFlags  = "id title for"
	listFlags = "agent owner label state"
)

func commands() []command {
	return []command{
		{"session new", "[KEY]", newFlags + " mask", makes, "Make a session and print its ID. Without KEY it gets a new key.", newSession},
		{"session list", "", listFlags + " waits limit", looks, "List sessions, newest message first.", listSessions},
		{"session get", "SESSION", "", looks, "Describe a session: its names, its numbers, pending work.", getSession},
		{"session delete", "SESSION", "now yes", changes, "Put a session into the trash, or delete it now, for good.", deleteSession},
		{"session add-message", "SESSION", "role content", changes, "Append a message.", addMessage},
		{"session commit", "SESSION", "", changes, "Close a chapter of messages, from which memories are made.", commit},

		{"show", "SESSION", "last full", looks, "Print the whole conversation; with --json print its lines.", show},
		{"title", "SESSION [TEXT]", "", changes, "Print the title, or set it.", title},
		{"follow", "SESSION", "after full", looks, "Print the conversation and new entries, until Ctrl-C.", follow},
		{"search", "WORDS...", "in regexp ranked role tool agent owner limit", looks, "Find texts, even compacted ones. word* finds words that begin so; \"a phrase\" is in quotes.", searchTexts},
		{"fork", "SESSION [ENTRY]", newFlags, changes, "Make a session that begins like this one, up to ENTRY or to the end.", fork},
		{"hide", "SESSION ENTRY...", "", changes, "Leave messages out of the history, with their calls and results.", hide},
		{"unhide", "SESSION ENTRY...", "", changes, "Show hidden messages again.", hide},
		{"stats", "[SESSION]", listFlags, looks, "Count turns, tokens, compactions; without a session, all sessions.", stats},
		{"usage", "[SESSION]", listFlags, looks, "Sum up the tokens of answers by model; without a session, of all sessions, even deleted ones.", usage},
		{"removed", "", "agent owner", looks, "List deleted sessions with their time, rule and size.", removed},

		{"prune", "", "older-than trash-for ttl max-sessions max-bytes per-key per-owner delete force n", changes, "Archive or delete old and surplus sessions, and empty the trash. First look at the plan with -n.", prune},
		{"archive", "SESSION", "", changes, "Compress a session. You can still read and search it.", archiveSession},
		{"restore", "SESSION", "", changes, "Bring a session back from the archive or the trash.", restoreSession},
		{"erase", "[SESSION] [ENTRY...]", "owner yes", changes, "Show every place with data of an owner, a session or entries; with --yes erase the data.", eraseData},
		{"doctor", "[FILE|FOLDER...]", "repair", looksOr, "Explain damage in the store, or in transcripts of any program, and change nothing.", doctor},
		{"import", "FILE|FOLDER...", "for from zone n mask", makes, "Import sessions of this or another program into the store; run it again for new entries. -n only lists the losses.", importSessions},
		{"export", "SESSION", "as model", looks, "Write a session to the standard output.", export},

		{"inspect", "FILE|FOLDER...", "", files, "Inspect transcripts of any program: entries, damage, the model request.", inspectFiles},
		{"convert", "FROM... FOLDER", "to for from zone model n", files, "Write transcripts in another form to a folder; --to native imports them. No file is overwritten. -n only lists the losses.", convertFiles},
		{"copy", "FROM TO", "n", files, "Copy all sessions of a store to another one. Run it again to add new lines, or to continue a killed copy.", copyStore},
		{"merge", "FROM TO", "n", files, "Merge a store, or one transcript such as a conflict copy of a sync program, into a store. A session that both have continued gets a fork. Nothing is deleted.", copyStore},
		{"serve", "", "addr page memories model mask", files, "Serve the folder over HTTP, for holders of the token. Without a token, make one. With --memories, a commit extracts memories with --model and the key in ANTHROPIC_API_KEY.", serveFolder},
	}
}

func find(name string) *command {
	for _, c := range commands() {
		if c.name == name {
			return &c
		}
	}
	return nil
}

const overview = `convolog shows and maintains conversations, in a folder or over HTTP.

Usage: convolog COMMAND [ARGUMENTS] [FLAGS]

  session new | list | get | delete | add-message | commit  single sessions
  show, follow, search     read a conversation, watch it grow, find texts
  title, fork              name a session, branch from it
  hide, unhide             take messages out of the history, and bring them back
  stats, usage, removed    numbers, tokens, deleted sessions
  prune, archive, restore  put away old sessions, and bring them back
  erase                    remove a person, a session or entries everywhere
  doctor                   explain damage, make safe repairs
  import, export           bring sessions into the store, and write them out
  inspect, convert         read transcripts of any program, without a store
  copy, merge              copy a store into another one, or join two
  serve                    serve a folder over HTTP
  help COMMAND             show arguments and flags of a command

Name a session by its ID, the start of its ID, or its key. With every command:
  --dir FOLDER, --url [URL]   store; default .convolog, http://localhost:1933
  --token TOKEN               the token of the server; default CONVOLOG_TOKEN
  --json                      print JSON, for scripts
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 doctor has findings
`

func (c *call) help() string {
	if c.command.name == "" {
		return overview
	}
	var sb strings.Builder
	fmt.Fprintf(&sb, "Usage: convolog %s [FLAGS]\n\n%s\n\n", strings.TrimSpace(c.command.name+" "+c.command.args), wrap(c.command.help, columns))
	for _, d := range flagsOf(everywhere + " " + c.command.flags) {
		name := strings.TrimSpace("--" + d.name + " " + d.arg)
		if len(d.name) == 1 {
			name = "-" + d.name
		}
		fmt.Fprintf(&sb, "  %-22s %s\n", name, d.help)
	}
	return sb.String()
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
