package dialect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/convolog/convolog/internal/title"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/chatgpt"
	"github.com/convolog/convolog/transcript/dialect/internal/claudecode"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
	"github.com/convolog/convolog/transcript/dialect/internal/openviking"
	"github.com/convolog/convolog/transcript/dialect/internal/rows"
)

// Session is a session of another program. The program's index outranks the
// transcript in everything except the messages.
type Session struct {
	Dialect Dialect `json:"dialect"`
	Sure    bool    `json:"sure,omitempty"` // see [Detect]
	Path    string  `json:"path"`           // of the transcript, of OpenViking the folder of the session
	ID      string  `json:"id,omitempty"`   // empty if an OpenViking session is the folder itself
	Key     string  `json:"key,omitempty"`  // routing name, in programs that have one
	Agent   string  `json:"agent,omitempty"`
	Owner   string  `json:"owner,omitempty"`  // the user in whose folder it is
	Origin  string  `json:"origin,omitempty"` // ID of the session that a [Writer] wrote here for pi, Claude Code or Codex
	// Dir is the folder that the session works in, in programs that record it.
	Dir string `json:"dir,omitempty"`
	// Title is the session's title by the program or its user, else the
	// beginning of the first text of the user.
	Title  string   `json:"title,omitempty"`
	Titled bool     `json:"titled,omitempty"` // Title is not just the beginning of that text
	Labels []string `json:"labels,omitempty"` // of the session or of its entries
	// Parent is the ID of the session that started this one as a helper, and Call
	// the ID of the tool call there. Call is empty if no record names the helper.
	Parent  string    `json:"parent,omitempty"`
	Call    string    `json:"call,omitempty"`
	Created time.Time `json:"created,omitzero"`
	Updated time.Time `json:"updated,omitzero"`
	Indexed bool      `json:"indexed,omitempty"` // an index lists it
	PutAway bool      `json:"putAway,omitempty"` // its program has taken it out of use
	// Archives are the files with earlier content: of OpenViking the folders of
	// the commits, of OpenClaw earlier copies.
	Archives []string `json:"archives,omitempty"`

	// Contents of the transcript and of the archives of OpenViking.
	Messages    int                 `json:"messages"`              // entries that add to messages
	Compactions int                 `json:"compactions,omitempty"` // summaries that replace older messages
	Asides      map[string]int      `json:"asides,omitempty"`      // records that are not for the model, by name
	Unknown     map[string]int      `json:"unknown,omitempty"`     // records that are not understood, by type
	Damage      []transcript.Damage `json:"damage,omitempty"`

	// Err is the reason why the transcript cannot be read; the fields above
	// then come from an index alone. In JSON it is the text of the error, as
	// "error".
	Err error `json:"-"`

	fsys fs.FS
	part part // of the file, if it holds several sessions
}

// part is a part of a document, or a helper's part of a transcript. The zero value is the
// whole file.
type part struct {
	start, end int64
	files      chatgpt.Assets
	helper     string // of Claude Code: the first row of the helper
}

// Info returns s: with [Session.Records] it makes a Session a source of an import.
func (s Session) Info() Session { return s }

// MarshalJSON implements [encoding/json.Marshaler].
func (s Session) MarshalJSON() ([]byte, error) {
	type fields Session
	all := struct {
		fields
		Error string `json:"error,omitempty"`
	}{fields: fields(s)}
	if s.Err != nil {
		all.Error = s.Err.Error()
	}
	return json.Marshal(all)
}

// Records yields the records of a session in the order of the conversation,
// ready for a fold; see [Dialect.Scan]. No writer should be active. For
// OpenViking every archive comes first, followed by a compaction with its
// overview and a commit; before the last commit come the contexts linked to the
// session; offsets of records count in their own files. The sequence may be
// ranged over several times and ends after the first pair with an error. A Session
// that no [Folder] has returned has no records.
func (s Session) Records() iter.Seq2[transcript.Record, error] {
	if s.Err == nil && s.fsys == nil {
		s.Err = fmt.Errorf("dialect: session %q is not from a folder: %w", s.ID, fs.ErrInvalid)
	}
	if s.Err != nil {
		return func(yield func(transcript.Record, error) bool) { yield(transcript.Record{}, s.Err) }
	}
	if s.Dialect == OpenViking && !strings.HasSuffix(s.Path, ".jsonl") {
		return openviking.Folder{FS: s.fsys, Dir: s.Path, Archives: s.Archives, Scan: s.scanMessages, Name: safeName}.Records()
	}
	return scanFile(s.fsys, s.Path, func(r io.ReaderAt, size int64) iter.Seq2[transcript.Record, error] {
		return s.part.scan(r, size, s.Dialect)
	})
}

// scanMessages scans a file of messages in the folder of a session of OpenViking.
func (s Session) scanMessages(name string, f openviking.Reader) iter.Seq2[transcript.Record, error] {
	return scanFile(s.fsys, name, func(r io.ReaderAt, size int64) iter.Seq2[transcript.Record, error] {
		return scanForm(r, size, transcript.ScanOptions{Final: true}, f)
	})
}

func (p part) scan(r io.ReaderAt, size int64, d Dialect) iter.Seq2[transcript.Record, error] {
	if p.end > 0 {
		r, size = documentReader{io.NewSectionReader(r, p.start, p.end-p.start), p.files}, p.end-p.start
	}
	return func(yield func(transcript.Record, error) bool) {
		opts := transcript.ScanOptions{Final: true}
		records := d.Scan(r, size, &opts)
		if p.helper != "" {
			records = scanForm(r, size, opts, claudecode.NewHelper(p.helper))
		}
		for rec, err := range records {
			if p.helper != "" && rec.Damage != nil { // of the session
				continue
			}
			rec.Offset, rec.End = rec.Offset+p.start, rec.End+p.start
			if rec.Damage != nil {
				rec.Damage.Offset += p.start
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}

// scanFile scans a file that is at rest.
func scanFile(fsys fs.FS, name string, scan func(r io.ReaderAt, size int64) iter.Seq2[transcript.Record, error]) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		r, size, err := openFile(fsys, name)
		if err != nil {
			yield(transcript.Record{}, err)
			return
		}
		defer func() { _ = r.Close() }() // it was only read
		for rec, err := range scan(r, size) {
			if !yield(rec, err) {
				return
			}
		}
	}
}

func detectFile(fsys fs.FS, name string) (d Dialect, sure bool, err error) {
	r, size, err := openFile(fsys, name)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = r.Close() }() // it was only read
	return Detect(r, size)
}

// survey reads the transcript for data missing in indexes, and calls each with
// the record of every entry.
func (s *Session) survey(each func(rec transcript.Record)) {
	s.Asides, s.Unknown = map[string]int{}, map[string]int{}
	var first, fromText, byHand, made string
	updated := !s.Updated.IsZero() // from an index
	for rec, err := range s.Records() {
		if err != nil {
			s.Err = err
			return
		}
		if rec.Damage != nil {
			s.Damage = append(s.Damage, *rec.Damage)
		}
		if !rec.HasEntry() {
			continue
		}
		each(rec)
		s.setOrigin(rec.Entry)
		if t := rec.Entry.Time; !t.IsZero() {
			if s.Created.IsZero() {
				s.Created = t
			}
			if !updated && t.After(s.Updated) {
				s.Updated = t
			}
		}
		meta := func(m transcript.Meta) {
			if m.Title != nil {
				byHand = *m.Title
			}
			if m.Labels != nil {
				s.Labels = m.Labels
			}
		}
		switch b := rec.Entry.Body.(type) {
		case transcript.Header:
			meta(b.Meta)
			s.Key = cmp.Or(s.Key, b.Key)
			if s.Created.IsZero() {
				s.Created = b.Created
			}
			if !strings.HasPrefix(rec.Entry.ID, "@") {
				s.ID = rec.Entry.ID
			}
			s.Agent = cmp.Or(s.Agent, fields.Of(rec.Entry.Line()).Str("agentId"))
			if s.Dialect == MiniClaw {
				agent, _, _ := strings.Cut(s.Key, ":")
				s.Agent = cmp.Or(s.Agent, agent)
			}
		case transcript.MessageLine:
			s.Messages++
			if first == "" && b.Role == transcript.RoleUser {
				first = strings.Join(strings.Fields(b.Message().Text()), " ")
			}
			if fromText == "" && b.Role == transcript.RoleUser {
				fromText = title.Of(b.Message().Text())
			}
		case transcript.Compaction:
			s.Compactions++
		case transcript.Meta:
			meta(b)
		case transcript.Unknown:
			s.Unknown[b.Kind]++
		case transcript.Custom:
			s.Asides[b.Name]++
			made = cmp.Or(s.aside(b.Name, rec.Entry.Line()), made)
		default: // the rest is not about a session as a whole
		}
	}
	s.Title = cmp.Or(byHand, s.Title, made)
	s.Titled = s.Title != "" && !strings.HasPrefix(first, strings.TrimRight(s.Title, "….")) // as a program would cut it
	s.Title = cmp.Or(title.Clean(s.Title), fromText)
}

// setOrigin takes the folder of the session, and its agent and ID before an export, from
// the first row that names them. The first text of the user is the last one that can.
func (s *Session) setOrigin(e transcript.Entry) {
	switch s.Dialect {
	case Pi, ClaudeCode, Codex:
		if s.Dir == "" && s.Messages == 0 {
			r := fields.Of(e.Line())
			s.Dir = cmp.Or(r.Str("cwd"), r.Object("payload").Str("cwd"))
			origin := r.Object(rows.Own)
			s.Origin, s.Agent = cmp.Or(s.Origin, origin.Str("session")), cmp.Or(s.Agent, origin.Str("agent"))
		}
	default: // it records none
	}
}

// aside records labels and returns the title that a program made.
func (s *Session) aside(name string, line []byte) string {
	r := fields.Of(line)
	switch name {
	case "label", "tag":
		label := cmp.Or(r.Str("label"), r.Str("tag"))
		if label != "" && !slices.Contains(s.Labels, label) {
			s.Labels = append(s.Labels, label)
		}
	case "summary":
		return r.Str("summary")
	case "ai-title":
		return r.Str("aiTitle")
	}
	return ""
}

// file is an open file that is read at any offset.
type file struct {
	fs.File
	io.ReaderAt
}

func openFile(fsys fs.FS, name string) (_ file, size int64, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return file{}, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if err != nil {
		_ = f.Close()
		return file{}, 0, err
	}
	if r, ok := f.(io.ReaderAt); ok {
		return file{f, r}, info.Size(), nil
	}
	return file{f, &forward{fsys: fsys, name: name, file: f}}, info.Size(), nil
}

// forward reads a file that can only be read from front to back. To go back it
// opens the file again.
type forward struct {
	fsys fs.FS
	name string
	file fs.File
	pos  int64
}

// ReadAt implements [io.ReaderAt].
func (f *forward) ReadAt(p []byte, off int64) (int, error) {
	if off < f.pos {
		again, err := f.fsys.Open(f.name)
		if err != nil {
			return 0, err
		}
		if f.pos > 0 {
			_ = f.file.Close() // it was only read
		}
		f.file, f.pos = again, 0
	}
	n, err := io.CopyN(io.Discard, f.file, off-f.pos)
	f.pos += n
	if err != nil {
		return 0, err
	}
	read, err := io.ReadFull(f.file, p)
	f.pos += int64(read)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return read, err
}
