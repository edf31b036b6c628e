package exchange

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript/dialect"
)

// ErrDiverged reports that an import or a copy cannot continue: records that were
// imported or copied have changed or vanished in the source, or both the source and the
// session made from it have been continued. Nothing was appended.
var ErrDiverged = errors.New("the source and the session made from it have gone different ways: " +
	"nothing was appended")

// ImportOptions of [Import]. Nil and zero fields are the defaults.
type ImportOptions struct {
	// Key returns the key that a session of the source belongs to. If it is nil, a key that
	// [session.ParseKey] reads stays the same. Any other is kept whole, as the Peer of the
	// channel "foreign", with the agent that it names if it begins with agent:<agent>:, else
	// with the agent of the session, or "main". Different keys stay different. Sessions of
	// programs without keys get agent:<dialect>:<session ID>. A key over 1,024 bytes is an error.
	Key func(dialect.Session) (session.Key, error)
	// For is the owner of new sessions; empty means the owner that the source names, in
	// its header or in its path. In a scope it is the owner of the scope. A source without
	// an owner adds nothing to an owner's session: it becomes a session of its own if it
	// contains more.
	For string
	// DryRun writes nothing. The report lists the planned changes.
	DryRun bool
	// Done, if set, is called with the report on each session when that is imported.
	Done func(Imported)
	// Zone is the time zone of times that a source has without one; nil means UTC.
	Zone *time.Location
	// Now is the clock for sources without times; nil means time.Now.
	Now func() time.Time
}

// Imported reports on one session of a source.
type Imported struct {
	Source  dialect.Session `json:"source"`
	Session session.Ref     `json:"session,omitzero"`
	Key     session.Key     `json:"key,omitzero"`
	Created bool            `json:"created,omitempty"` // the session was not there before
	Trashed bool            `json:"trashed,omitempty"` // the session is in the trash and stays there
	Records int             `json:"records"`           // in the source
	// Appended is how many of the records were new; 0 if all had been imported
	// before.
	Appended int `json:"appended"`
	// Lost counts content that was not carried over unchanged, by the names below. In
	// addition Source.Asides counts the records that no model is shown, such as the records
	// of an abandoned branch. They are custom entries of the session.
	//   - "damage": places in the source that are not a record;
	//   - "time": entries without a time, which got the time before theirs;
	//   - "zone": entries with a time without a zone, which was taken in
	//     [ImportOptions].Zone;
	//   - "reference": compactions, clips, hides and rewinds that name entries that are
	//     not there;
	//   - "unknown": records that are not understood, kept as custom entries;
	//   - "archive": files of earlier copies, which were not read;
	//   - "repeated": batches that a native source contains before, which were skipped;
	//   - "different": batches of a native source with the ID of an earlier one and other
	//     content, which were skipped;
	//   - "usage": answers of Claude Code whose usage another session counts;
	//   - "record": records that no line could be made of;
	//   - "thinking" and other types of blocks: blocks without words that the program has
	//     added to an export of the session, and nothing else;
	//   - "source": original lines too long to be kept with the native ones: over 16 MiB,
	//     or over the limit of a line together.
	Lost dialect.Losses `json:"lost,omitempty"`
	// Err is the reason why the session was not imported, or not completely. In
	// JSON it is the text of the error, as "error".
	Err error `json:"-"`
}

// MarshalJSON implements [encoding/json.Marshaler].
func (i Imported) MarshalJSON() ([]byte, error) {
	type fields Imported
	all := struct {
		fields
		Key   string `json:"key,omitempty"` // as it is written everywhere else
		Error string `json:"error,omitempty"`
	}{fields: fields(i)}
	if i.Key != (session.Key{}) {
		all.Key = i.Key.String()
	}
	if i.Err != nil {
		all.Error = i.Err.Error()
	}
	return json.Marshal(all)
}

// foreignChannel is the channel of keys that importKey keeps whole.
const foreignChannel = "foreign"

// importKey is the default of [ImportOptions].Key. The error matches [session.ErrKey].
func importKey(s dialect.Session) (session.Key, error) {
	if s.Key == "" {
		return checked(session.Key{Agent: cmp.Or(s.Agent, "main"), Channel: string(s.Dialect), Peer: cmp.Or(s.ID, s.Path)})
	}
	if k, err := session.ParseKey(s.Key); err == nil && k.Channel != foreignChannel {
		return k, nil
	}
	k := session.Key{Agent: cmp.Or(s.Agent, "main"), Channel: foreignChannel, Peer: s.Key}
	if rest, ok := strings.CutPrefix(s.Key, "agent:"); ok {
		if agent, _, ok := strings.Cut(rest, ":"); ok && agent != "" && agent != "main" && utf8.ValidString(agent) {
			k.Agent = agent
		}
	}
	if !utf8.ValidString(s.Key) {
		k.Kind, k.Peer = "bytes", fmt.Sprintf("%x", s.Key)
	}
	return checked(k)
}

// checked returns a key without Account and Thread, or a problem.
func checked(k session.Key) (session.Key, error) {
	_, err := session.ParseKey(k.String())
	return k, err
}
