package session

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Info describes a session.
type Info struct {
	Ref
	Key         string        `json:"key"`     // printed form
	Current     bool          `json:"current"` // whether it is the current session of its key
	Title       string        `json:"title,omitempty"`
	TitleByHand bool          `json:"titleByHand,omitempty"`
	TitledAt    int           `json:"titledAt,omitempty"` // Messages when the title was set
	Owner       string        `json:"owner,omitempty"`
	Labels      []string      `json:"labels,omitempty"`
	CreatedAt   time.Time     `json:"createdAt"`
	UpdatedAt   time.Time     `json:"updatedAt"`             // of the last message, compaction or rewind
	LastUserAt  time.Time     `json:"lastUserAt,omitzero"`   // of the last user message; zero without one
	Messages    int           `json:"messages"`              // user messages and answers, rewound ones included
	Turns       int           `json:"turns"`                 // of the conversation as it stands
	Tokens      int           `json:"tokens"`                // estimate of the history
	Size        int64         `json:"size"`                  // bytes of the transcript
	End         int64         `json:"end"`                   // place after the last line, see [Store.DeleteAt] and [View.End]
	Compactions int           `json:"compactions,omitempty"` // rewound ones included, but not those that a fork was copied with
	TTL         time.Duration `json:"ttl,omitempty"`         // in JSON nanoseconds
	Expires     time.Time     `json:"expires,omitzero"`      // when the TTL is over: that long after LastUserAt, or after CreatedAt; zero is never
	State       State         `json:"state,omitempty"`
	Trashed     time.Time     `json:"trashed,omitzero"` // when it was put into the trash; only in the state [Trashed]
	Keep        bool          `json:"keep,omitempty"`
	Waits       rebuild.Wait  `json:"waits,omitempty"` // the next step of unfinished work; in a list exact only with [ListOptions].Waits
	Usage       Usage         `json:"usage,omitempty"` // of the answers; must not be modified
	// Values are the listed values of the application, by name, see [transcript.Value]: those
	// set last that have at most 4 KiB together, names included. Unlisted is how many more
	// the session has: turn.Values reads them. The first value that another process sets
	// may be in a list five seconds later. The map must not be modified.
	Values   map[string]json.RawMessage `json:"values,omitempty"`
	Unlisted int                        `json:"unlisted,omitempty"`
	// Rev is how often entries were erased or replaced in the session. A program that has shown
	// the session to a model must not write the model's words when Rev has changed:
	// they may repeat erased ones.
	Rev int `json:"rev,omitempty"`
	// Cursor is the place of the session in a list, for [ListOptions].After: an opaque
	// text of letters, digits, '-' and '_'. It stays good when the session is changed or
	// deleted.
	Cursor string `json:"-"`

	// Base is the place that a fork was copied from, see [Session.Fork]; Descent holds
	// such a place for each of its bases, the oldest first. Parent is as in [CreateOptions].
	Base    transcript.Link   `json:"base,omitzero"`
	Descent []transcript.Link `json:"descent,omitempty"`
	Parent  transcript.Link   `json:"parent,omitzero"`
}

// Usage maps the models that answers name to the cost of these answers, in tokens that
// the providers reported. Rewound and cut answers count.
type Usage map[string]driver.Usage

// A State of a session is live, expired, archived or trashed.
type State string

// The states.
const (
	Live     State = ""         // neither archived nor expired
	Archived State = "archived" // by [Store.SetState]
	Trashed  State = "trashed"  // the same; to be deleted unless it is restored
	Expired  State = "expired"  // its TTL is over, and it is not archived
	AnyState State = "any"      // only in [ListOptions]: all of them but Trashed

	// EveryState lists all of them at one moment, and so misses no session that another
	// caller moves between two lists.
	EveryState State = "every"
)

func infoOf(row driver.Row, now func() time.Time) Info {
	info := Info{
		Ref: row.Ref(), Key: row.Key, Current: row.Current, Title: row.Title, TitleByHand: row.TitleByHand, TitledAt: row.TitledAt, Owner: row.Owner,
		Labels: slices.Clone(row.Labels), CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt, LastUserAt: row.LastUserAt,
		Messages: row.Messages, Turns: row.Turns, Tokens: row.TokenEstimate, Size: cmp.Or(row.Bytes, row.Size), End: row.Size, Compactions: row.Compactions,
		TTL: ttlOf(row), Expires: expires(row, ttlOf(row)), State: stateOf(row, now), Keep: row.Keep, Waits: rebuild.Wait(row.Waits), Usage: row.Usage, Values: row.Values, Unlisted: row.Unlisted,
		Rev: row.Rev, Cursor: cursorOf(row), Base: row.Base, Descent: slices.Clone(row.Descent), Parent: row.Parent,
	}
	if info.State == Trashed {
		info.Trashed = time.Unix(row.Trashed, 0).UTC()
	}
	return info
}

// isTrashed reports whether a session is in the trash: archived, with a time in its last
// metadata.
func isTrashed(row driver.Row) bool { return row.Archived && row.Trashed != 0 }

// expires returns when a TTL is over, counted from the last user message or
// else from the creation. The zero time means never.
func expires(row driver.Row, ttl time.Duration) time.Time {
	switch {
	case ttl <= 0:
		return time.Time{}
	case row.LastUserAt.Before(row.CreatedAt): // zero, or a clock was corrected
		return row.CreatedAt.Add(ttl)
	}
	return row.LastUserAt.Add(ttl)
}

// ttlOf returns the TTL of a row. It ignores a negative one, and one of centuries,
// too long for a Duration.
func ttlOf(row driver.Row) time.Duration {
	if row.TTL < 0 || row.TTL > int64(math.MaxInt64/time.Second) {
		return 0
	}
	return time.Duration(row.TTL) * time.Second
}

// stateOf returns the state of a session. It reads the clock only if that
// matters.
func stateOf(row driver.Row, now func() time.Time) State {
	switch {
	case isTrashed(row):
		return Trashed
	case row.Archived:
		return Archived
	}
	if over := expires(row, ttlOf(row)); !over.IsZero() && !now().Before(over) {
		return Expired
	}
	return Live
}

// cursorOf prints the place of a row in a list over all agents.
func cursorOf(row driver.Row) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(
		[]string{cursorVersion, row.UpdatedAt.UTC().Format(time.RFC3339Nano), row.ID, row.Agent}, "\n")))
}

// cursor is a place in a list over all agents. Cursors are ordered like a
// [driver.Position], and equal ones by the name of the agent.
type cursor struct {
	driver.Position
	agent string
}

// cursorVersion begins every cursor.
const cursorVersion = "1"

var errCursor = &InputError{"after", "it is not a cursor: give an Info.Cursor, or nothing to begin at the front"}

func parseCursor(s string) (p cursor, err error) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(s)
	parts := strings.SplitN(string(data), "\n", 4)
	if err != nil || len(parts) != 4 || parts[0] != cursorVersion {
		return p, errCursor
	}
	p.ID, p.agent = parts[2], parts[3]
	p.UpdatedAt, err = time.Parse(time.RFC3339Nano, parts[1])
	// The ID may be unusual: if a header cannot be read, the ID is the name of the
	// file.
	if err != nil || p.ID == "" || p.agent == "" || !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return p, errCursor
	}
	return p, nil
}
