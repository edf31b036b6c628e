package transcript

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"time"
)

// The types of the lines that can be the head of a session, see [IsHead]. The types of
// messages are the Kind of a [MessageLine]. docs/FORMAT.md lists the other types, each
// with its own [Body].
const (
	TypeUser       = "user"
	TypeAssistant  = "assistant"
	TypeToolUse    = "tool_use"
	TypeToolResult = "tool_result"
	typeCompaction = "compaction"
	typeRewind     = "rewind"
)

// Body is the content of an entry. The set is closed: Header, MessageLine, Compaction, Clip, Hide,
// Rewind, System, Tools, Meta, Current, Calibration, ToolStatus, Used, Commit, Extracted,
// Dispatch, Decision, Interrupt, Queued, Draft, Pin, Value, Erasure, Custom and Unknown.
// All are values.
type Body interface {
	kind() string // the "type" member of the line, see [Entry.Type]
}

// Header is the first line of a transcript. The entry's ID is the session's.
type Header struct {
	Version int
	Key     string // printed form of the key, see session.Key
	Gen     int64  // the session with the highest gen is the key's current one
	// Rev is how often an erase or a merge has replaced lines of the session: of two
	// rows of a session the one with the higher Rev counts.
	Rev     int
	Created time.Time
	Owner   string // of the session; it never changes
	Meta    Meta   // as known at creation; written as members of the line
	// Standing is the state that a fork begins with, as in a [Compaction]. Lines of
	// state among its copied lines do not count.
	Standing []Entry
	// Base is the origin of a fork: the session, the requested entry, and the
	// number of lines after the header that are copies.
	Base Link
	// Descent names all sessions that a fork descends from, the oldest first, each with
	// the entry at which it was forked. Base is the last.
	Descent []Link
	// Parent is the entry of the call that started the session of a sub-agent.
	Parent Link
}

// Link names a place in another session. Nothing depends on it: that session
// may be deleted.
type Link struct {
	Agent   string `json:"agent,omitempty"`
	Session string `json:"session,omitempty"`
	Entry   string `json:"entry,omitempty"`
	Lines   int    `json:"lines,omitempty"` // of a Base
}

// A MessageLine is the part of a message in one line of type user, assistant,
// tool_use or tool_result.
type MessageLine struct {
	Kind    string // the type of the line
	Role    Role
	Content []Block
	// Of is the entry ID of the first line of the model answer this line is
	// part of; empty on that line itself, on user and tool_result lines, and in
	// records of programs that do not record it.
	Of string
	// Queued is the entry ID of the [Queued] text that a user line takes over;
	// empty on all others.
	Queued string
	// The rest is set on the first line of a model answer.
	API        string
	Model      string
	StopReason StopReason
	Usage      Usage
	RequestID  string
	Made       Made
	// Ext belongs to the whole answer, and only to its API.
	Ext   json.RawMessage
	plain bool
}

// WithContent returns f with other content. A single text without extras is
// written as a JSON string.
func (f MessageLine) WithContent(content ...Block) MessageLine {
	f.Content = content
	f.plain = isPlain(content)
	return f
}

// Message returns the line's content as a message of its own.
func (f MessageLine) Message() Message {
	return Message{Role: f.Role, Content: f.Content, plain: f.plain}
}

// Message returns the queued text as a message of the user.
func (q Queued) Message() Message {
	return Message{Role: RoleUser, Content: q.Content, plain: q.plain}
}

// Compaction replaces the older part of the history by a summary.
type Compaction struct {
	Summary   string `json:"summary"`
	FirstKept string `json:"firstKeptEntryId,omitempty"` // entry ID: the history continues here after the summary
	CoversTo  string `json:"coversTo,omitempty"`         // entry ID of the last entry the summary read
	// Read are the IDs of entries after FirstKept that the summary covers as
	// well: results of calls before FirstKept.
	Read         []string `json:"read,omitempty"`
	TurnsBefore  int      `json:"turnsBefore,omitempty"`  // turns of the conversation before FirstKept
	TokensBefore int      `json:"tokensBefore,omitempty"` // estimated size of the history before and after
	TokensAfter  int      `json:"tokensAfter,omitempty"`

	// The items that code carries over from the summarised part, the oldest
	// first. They follow the summary.
	Said   []Carried `json:"said,omitempty"`   // texts of the user
	Rules  []Carried `json:"rules,omitempty"`  // files of instructions that calls have read
	Files  []Carried `json:"files,omitempty"`  // paths that calls have read or modified
	Errors []Carried `json:"errors,omitempty"` // of tools
	IDs    []Carried `json:"ids,omitempty"`    // identifiers of texts of the user that Said does not have
	Pins   []Carried `json:"pins,omitempty"`   // texts that were pinned, whole

	// Standing is the state in force after the compaction: calibrations, pins, values,
	// queued texts, drafts. Each is the entry that set it, with its ID and time; drafts
	// contain all of their text. So readers need no older line. It is nil in
	// compactions of other programs and in those that a fork has copied.
	Standing []Entry `json:"-"`
}

// Standing returns the state that a compaction or a header holds.
func (e Entry) Standing() []Entry {
	switch b := e.Body.(type) {
	case Compaction:
		return b.Standing
	case Header:
		return b.Standing
	}
	return nil
}

// Carried is an item that a compaction carries over.
type Carried struct {
	Entry string `json:"entry,omitempty"` // ID of the entry that it comes from
	Text  string `json:"text"`
	// Open marks a text of the user whose turn continues after the cut.
	Open     bool   `json:"open,omitempty"`
	Modified bool   `json:"modified,omitempty"` // of a file
	Tool     string `json:"tool,omitempty"`     // of an error
	Path     string `json:"path,omitempty"`     // of a file of instructions
	// To is the end of the question that a short text of the user answers, and
	// ToEntry the ID of the entry that asked it.
	To      string `json:"to,omitempty"`
	ToEntry string `json:"toEntry,omitempty"`
}

// WithoutCarried returns the compaction without items from entries that gone
// reports, and without questions from them. It reports whether that changes the
// compaction. Its summary stays.
func (c Compaction) WithoutCarried(gone func(entry string) bool) (left Compaction, changed bool) {
	for _, list := range []*[]Carried{&c.Said, &c.Rules, &c.Files, &c.Errors, &c.IDs, &c.Pins} {
		was := len(*list)
		*list = slices.DeleteFunc(slices.Clone(*list), func(i Carried) bool { return gone(i.Entry) })
		changed = changed || len(*list) < was
		for k := range *list {
			if i := &(*list)[k]; i.ToEntry != "" && gone(i.ToEntry) {
				i.To, i.ToEntry, changed = "", "", true
			}
		}
	}
	return c, changed
}

// Clip replaces parts of the history by shorter ones.
type Clip struct {
	Clips []Clipping
}

// Clipping replaces one tool result, image or document.
type Clipping struct {
	Entry string // the entry that holds it
	// Block is the index of the block in the content of that entry, counted
	// from 0. Nil means the whole content of a tool_result entry.
	Block   *int
	Content string // replaces it for the model, verbatim
}

// Hide leaves entries out of the history, whole: messages, calls and results. With Off
// they are shown again. The last one for an entry counts.
type Hide struct {
	Entries []string
	Off     bool
}

// Rewind takes the history back to its state right after the append that has the entry To.
type Rewind struct {
	To string
}

// System is the system prompt from here on.
type System struct {
	Text string
}

// Tools are the names of the tools that may be called from here on, of all that
// requests define. The zero value allows none of them. A model may still call
// others; refusing them is up to the application. The definitions stay in the
// requests: adding or removing one there edits earlier requests, while this
// entry only adds to them.
type Tools struct {
	Names []string
}

// Meta describes the session. A nil field is unset; of several entries the last
// value of a field wins.
type Meta struct {
	Title *string
	// TitleBy is [ByModel] if a model has made the Title. A title set by hand
	// leaves it empty and is only replaced by hand.
	TitleBy string
	Labels  []string // nil says nothing, empty removes all
	TTL     *int64   // seconds after the last user message; 0 or less means for ever
	Keep    *bool
	// Trashed is when an archived session was put into the trash, in seconds since 1970;
	// 0 takes it out. It counts only while the session is archived.
	Trashed *int64
}

// ByModel is the TitleBy of a [Meta] whose title a model has made.
const ByModel = "model"

// Current makes the session the current one of its key.
type Current struct {
	Gen int64
}

// Calibration records findings about a model at an endpoint, or about the
// summarizer of the session. A zero field is unset: [Calibration.Merge] has the
// rule for several entries. A [Compaction] resets all of them but those in its
// Standing.
type Calibration struct {
	Model string `json:"model,omitempty"` // as requests name it; empty if they do not
	// Endpoint is the service or the account, as the application names it; empty
	// if it names none.
	Endpoint string  `json:"endpoint,omitempty"`
	Window   int     `json:"window,omitempty"` // tokens; below 0: an earlier value was wrong, and the window is unknown
	Factor   float64 `json:"factor,omitempty"` // reported / estimated tokens
	Prompt   int     `json:"prompt,omitempty"` // reported tokens of the request that Factor was taken from

	// Failures counts the summaries in a row that the summarizer failed to
	// write, or that were skipped because of that. FailedAt is the estimated
	// size of the history at the last one, in tokens.
	Failures int `json:"failures,omitempty"`
	FailedAt int `json:"failedAt,omitempty"`

	// Without are the forms that the service refused. Images, Side and Messages
	// are the limits of the same names in [Takes]; a number below 0 takes an
	// earlier one back. Left names refused media, and results that hold some. An empty list
	// takes back all of an earlier list; nil leaves it.
	Without  []Form     `json:"without,omitempty"`
	Images   int        `json:"images,omitempty"`
	Side     int        `json:"side,omitempty"`
	Messages int        `json:"messages,omitempty"`
	Left     []BlockRef `json:"left,omitempty"`
	// Unread is an entry of an answer. The service refused the reasoning and the
	// provider's opaque data in answers up to this one.
	Unread string `json:"unread,omitempty"`
}

// BlockRef names a block of an entry.
type BlockRef struct {
	Entry string `json:"entry"`
	Block int    `json:"block"` // as in [Origin]
}

// IsZero reports whether c holds no finding.
func (c Calibration) IsZero() bool {
	c.Model, c.Endpoint = "", ""
	return reflect.ValueOf(c).IsZero()
}

// Merge returns the findings of c and of a later calibration of the same model
// and endpoint: for numbers the later value (Prompt goes with Factor, FailedAt
// with Failures), for lists the union.
func (c Calibration) Merge(later Calibration) Calibration {
	if later.Factor == 0 {
		later.Factor, later.Prompt = c.Factor, c.Prompt
	}
	if later.Failures == 0 {
		later.Failures, later.FailedAt = c.Failures, c.FailedAt
	}
	later.Window = cmp.Or(later.Window, c.Window)
	later.Images, later.Side = cmp.Or(later.Images, c.Images), cmp.Or(later.Side, c.Side)
	later.Messages, later.Unread = cmp.Or(later.Messages, c.Messages), cmp.Or(later.Unread, c.Unread)
	later.Without, later.Left = union(c.Without, later.Without), union(c.Left, later.Left)
	return later
}

// Takes returns the limits and the forms in c.
func (c Calibration) Takes() Takes {
	return Takes{Without: c.Without, Images: max(c.Images, 0), Side: max(c.Side, 0), Messages: max(c.Messages, 0)}
}

// ToolStatus reports on a call that is still running. The status of a call goes
// from pending to running and then to completed or error. It may skip the first two.
type ToolStatus struct {
	CallID string
	Status string // pending, running, completed or error
}

// Dispatch records that the tool of a call is about to start. From then on it
// may have run, until there is a result.
type Dispatch struct {
	Call   string // entry ID of the call
	CallID string // its tool_use_id, which may occur more than once
}

// Decision approves, rejects or holds a call. The first one that approves or
// rejects it counts.
type Decision struct {
	Call, CallID string // as of a Dispatch
	Verdict      Verdict
	By           string // who has decided
	Reason       string // the reason; the model sees why a call was rejected
}

// Verdict is the outcome of a [Decision].
type Verdict string

// The verdicts.
const (
	Hold    Verdict = "hold" // a person is to decide
	Approve Verdict = "approve"
	Reject  Verdict = "reject"
)

// Interrupt asks the process that answers to stop, or records that a turn ended
// without an answer. The record is a short note in the history, unless a whole answer
// precedes it.
type Interrupt struct {
	By string // who asks; empty if Ended is set
	// Ended is the reason why earlier texts get no answer: a code, such as
	// stopped or failed. Empty asks to stop. After stopped, a stop by the user, it is
	// not the model's turn. Other codes change nothing about that.
	Ended string
}

// Queued is a text of the user during a running turn. No model sees it before a
// user line takes it over, see [MessageLine].
type Queued struct {
	Content []Block
	plain   bool
}

// Draft is a part of an answer that is still being streamed: the text since the
// previous part. A session has one open draft. The first part of another draft, an
// answer or Off ends it, and later parts of an ended draft are ignored.
type Draft struct {
	Key  string
	At   int // how many bytes of the draft come before Text; 0 for the first part
	Text string
	Off  bool // the draft is over without an answer

	// Of the first part, as in a [MessageLine].
	API   string
	Model string
	Made  Made
}

// Pin makes the text of an entry survive every compaction whole; with Off it
// ends that.
type Pin struct {
	Entry string
	Text  string
	Off   bool
}

// Value sets a value of the application's own. Models never see it.
type Value struct {
	Name  string
	Value json.RawMessage // nil removes it
	// Listed puts a small value into the row of the session, so that a list of sessions
	// contains it.
	Listed bool
}

// Erasure records that the content of these entries was erased, see
// [Entry.Erase].
type Erasure struct {
	Entries []string
}

// Custom is an application's own entry. Models never see it.
type Custom struct {
	Name string
	Data json.RawMessage
	// Covers are the IDs of the entries whose words Data repeats. An erase of one of them
	// erases Data.
	Covers []string
}

// Unknown is an entry of a type this package does not know. Its line is kept.
type Unknown struct {
	Kind string
	// Critical forbids readers that do not know the type to ignore the line.
	Critical bool
}

func (Header) kind() string        { return "session" }
func (f MessageLine) kind() string { return f.Kind }
func (Compaction) kind() string    { return typeCompaction }
func (Clip) kind() string          { return "clip" }
func (Hide) kind() string          { return "hide" }
func (Rewind) kind() string        { return typeRewind }
func (System) kind() string        { return "system" }
func (Tools) kind() string         { return "tools" }
func (Meta) kind() string          { return "meta" }
func (Current) kind() string       { return "current" }
func (Calibration) kind() string   { return "calibration" }
func (ToolStatus) kind() string    { return "tool_status" }
func (Used) kind() string          { return "used" }
func (Commit) kind() string        { return "commit" }
func (Extracted) kind() string     { return "extracted" }
func (Dispatch) kind() string      { return "dispatch" }
func (Decision) kind() string      { return "decision" }
func (Interrupt) kind() string     { return "interrupt" }
func (Queued) kind() string        { return "queued" }
func (Draft) kind() string         { return "draft" }
func (Pin) kind() string           { return "pin" }
func (Value) kind() string         { return "value" }
func (Erasure) kind() string       { return "erased" }
func (Custom) kind() string        { return "custom" }
func (u Unknown) kind() string     { return u.Kind }
