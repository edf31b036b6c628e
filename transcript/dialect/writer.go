package dialect

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/rows"
)

// Writer writes sessions in the form of another program, in the layout of the
// folder that it works in:
//
//	mini-claw   transcripts/<key>_<id>.jsonl, sessions.json
//	claw0       agents/<agent>/sessions/<id>.jsonl, agents/<agent>/sessions.json
//	zyhive      agents/<agent>/sessions/<id>.jsonl and sessions.json beside them
//	openviking  session/<id>/ with messages, archives and the files about them
//	pi          sessions/--<folder>--/<time>_<id>.jsonl; of a key of OpenClaw
//	            agents/<agent>/sessions/<id>.jsonl and sessions.json beside them
//	claude-code projects/<folder>/<id>.jsonl
//	codex       sessions/<year>/<month>/<day>/rollout-<time>-<id>.jsonl
//
// mini-claw holds one session a key: of several the last used keeps the key, and
// the others get one with the time of their creation, <key>_<HHMMSS>.
//
// Summaries name none of the tools with which a model reads older entries here.
// Times carry a zone, where the program gives one, and names of files are
// letters, digits, '-', '_' and dots. The archives of OpenViking come from the
// commits; in a session without any, each compaction makes one. A Writer is for
// one goroutine.
type Writer struct {
	create  func(name string) (io.WriteCloser, error)
	dialect Dialect
	written []indexRow
	names   map[string]bool   // of the files and folders that are taken
	ids     map[string]bool   // of the sessions in files of rows
	agents  map[string]string // agent -> its folder
	open    []*lines
	mended  int // lines and files of the session at hand
	closed  bool
}

// Losses counts content that a dialect cannot hold, by name: the type of a
// block or of an entry, "error" for the mark of a failed call, "owner" and "agent" of
// a session, "time" for lines whose time is not known, and "half-surrogate" for lines
// in which halves of surrogate pairs became U+FFFD.
type Losses map[string]int

// A form is the layout of the folder of a program.
type form struct {
	begin func(w *Writer, s Session) (output, error)
	// at names the index of an agent's sessions, and index lists them in it. Both are nil
	// without one.
	at    func(agent string) string
	index func(all *jsontext.Object, written []indexRow)
}

var forms = map[Dialect]form{
	MiniClaw:   {beginMiniClaw, func(string) string { return "sessions.json" }, miniClawIndex},
	Claw0:      {beginClaw0, func(agent string) string { return path.Join("agents", agent, "sessions.json") }, claw0Index},
	ZyHive:     {beginZyHive, besideSessions, zyHiveIndex},
	OpenViking: {begin: beginViking},
	Pi:         {beginRows, besideSessions, openClawIndex},
	ClaudeCode: {begin: beginRows},
	Codex:      {begin: beginRows},
}

func besideSessions(agent string) string {
	return path.Join("agents", agent, "sessions", "sessions.json")
}

// output takes the conversation of a session.
type output interface {
	exchange(x *exchange) error
	// compaction and, for all other kinds, entry report whether the form can
	// hold it. x is the part not yet passed to exchange.
	compaction(e transcript.Entry, c transcript.Compaction) (bool, error)
	entry(x *exchange, e transcript.Entry) (bool, error)
	end(losses Losses) error
}

// NewWriter returns a Writer whose files are made by create. Create gets slash
// separated names below the written folder, valid for [io/fs.ValidPath], each
// once, and makes folders as needed. NewWriter fails if d cannot be written.
func NewWriter(d Dialect, create func(name string) (io.WriteCloser, error)) (*Writer, error) {
	if create == nil {
		return nil, errors.New("dialect: no function creates the files to write")
	}
	if forms[d].begin == nil {
		return nil, fmt.Errorf("dialect: cannot write %q: only %s, %s, %s, %s, %s, %s and %s", string(d), MiniClaw, Claw0, ZyHive, OpenViking, Pi, ClaudeCode, Codex)
	}
	return &Writer{create: create, dialect: d, names: map[string]bool{}, ids: map[string]bool{}, agents: map[string]string{}}, nil
}

// Write writes one session. Of s it uses ID, Key, Agent, Title, Dir, Created
// and Updated, any of which may be empty. No form holds the Owner, which counts as lost.
// The ID stays, so that an import of the files
// finds the session that they were exported from. An ID that is not the name of a
// file, or for Claude Code and Codex not a UUID, is replaced by one derived from it; files
// of pi, Claude Code and Codex hold the first one as well, see [Session].
//
// entries are the conversation in order, from a scan or made of a folded
// history; entries that are not for the model count as lost. A rewind or a clip
// is an error: fold the session first, because other programs do not understand
// them. With a nil error the files of the session are written and closed; the
// index follows with [Writer.Close]. After an error they are closed and
// incomplete, and the index does not list the session.
func (w *Writer) Write(s Session, entries iter.Seq2[transcript.Entry, error]) (Losses, error) {
	if w.closed || w.create == nil {
		return nil, errors.New("dialect: the writer is closed, or not from NewWriter")
	}
	x := &exchange{losses: Losses{}, time: s.Created}
	w.mended = 0
	out, err := forms[w.dialect].begin(w, s)
	if err == nil {
		err = x.all(entries, out)
	}
	for _, l := range w.open { // after an error
		_ = l.file.Close()
	}
	w.open = nil
	if s.Owner != "" {
		x.losses["owner"]++
	}
	if cmp.Or(s.Agent, "main") != "main" && !w.holdsAgent(s) {
		x.losses["agent"]++
	}
	if w.mended > 0 {
		x.losses["half-surrogate"] += w.mended
	}
	if err != nil {
		return x.losses, fmt.Errorf("dialect: writing session %s: %w", s.ID, err)
	}
	return x.losses, nil
}

// holdsAgent reports whether the files hold the agent of a session: mini-claw has it in
// the key, and the name of a folder may be another one.
func (w *Writer) holdsAgent(s Session) bool {
	if w.dialect == MiniClaw {
		return s.Key == "" || strings.HasPrefix(s.Key, "agent:"+s.Agent+":") || strings.HasPrefix(s.Key, s.Agent+":")
	}
	folder, ok := w.agents[s.Agent]
	return !ok || folder == s.Agent
}

// Close writes the index, of programs that have one.
func (w *Writer) Close() error {
	if w.closed || w.create == nil {
		return nil
	}
	w.closed = true
	form := forms[w.dialect]
	lists := map[string][]indexRow{}
	for _, row := range w.written {
		lists[form.at(row.Agent)] = append(lists[form.at(row.Agent)], row)
	}
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		all := rows.Object()
		form.index(all, lists[name])
		if err := w.putJSON(name, all.End()); err != nil {
			return fmt.Errorf("dialect: writing the index: %w", err)
		}
	}
	return nil
}

// lines is a file of JSON objects, one a line.
type lines struct {
	w    *Writer
	file io.WriteCloser
	buf  *bufio.Writer
	rows int
}

func (w *Writer) lines(name string) (*lines, error) {
	file, err := w.create(name)
	if err != nil {
		return nil, err
	}
	l := &lines{w: w, file: file, buf: bufio.NewWriter(file)}
	w.open = append(w.open, l)
	return l, nil
}

func (l *lines) add(o *jsontext.Object) error { return l.write(l.w.line(o)) }

func (l *lines) write(line []byte) error {
	_, err := l.buf.Write(append(line, '\n'))
	l.rows++
	return err
}

// line returns the line of an object. U+0085 is escaped: it ends a line in Python.
func (w *Writer) line(o *jsontext.Object) []byte {
	return bytes.ReplaceAll(w.mend(o.End()), []byte("\u0085"), []byte(`\u0085`))
}

// mend returns JSON without halves of surrogate pairs: Python reads them, and
// then fails to write them.
func (w *Writer) mend(doc []byte) []byte {
	if jsontext.MendSurrogates(doc) {
		w.mended++
	}
	return doc
}

func (l *lines) close() error {
	l.w.open = slices.DeleteFunc(l.w.open, func(other *lines) bool { return other == l })
	return errors.Join(l.buf.Flush(), l.file.Close())
}

// end closes the file of a session and lists the session in the index.
func (l *lines) end(row indexRow) error {
	err := l.close()
	if err == nil {
		l.w.written = append(l.w.written, row)
	}
	return err
}

func (w *Writer) put(name string, data []byte) error {
	file, err := w.create(name)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}

// putJSON writes an object as the programs write their indexes.
func (w *Writer) putJSON(name string, object []byte) error {
	var buf bytes.Buffer
	if err := json.Indent(&buf, object, "", "  "); err != nil {
		return err
	}
	return w.put(name, buf.Bytes())
}

// unique returns the first of name, name_2, name_3 ... that no earlier file has, even on
// a disk that folds case.
func (w *Writer) unique(name, ext string) string {
	full := name + ext
	for n := 2; w.names[strings.ToLower(full)]; n++ {
		full = fmt.Sprintf("%s_%d%s", name, n, ext)
	}
	w.names[strings.ToLower(full)] = true
	return full
}

// agent returns the name of an agent's folder; an empty agent is "main".
func (w *Writer) agent(agent string) string {
	if agent == "" {
		agent = "main"
	}
	if _, ok := w.agents[agent]; !ok {
		w.agents[agent] = path.Base(w.unique(path.Join("agents", safeName(agent)), ""))
	}
	return w.agents[agent]
}

// safeName returns s as an element of a path: letters, digits, '-', '_' and
// dots that are neither the first nor the last, not too long, and no device of
// Windows.
func safeName(s string) string {
	const most = 128 // as long as a session ID of this library
	safe := strings.Map(func(r rune) rune {
		switch {
		case r == '-' || r == '_' || r == '.', '0' <= r && r <= '9', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z':
			return r
		}
		return '_'
	}, s)
	if strings.HasPrefix(safe, ".") {
		safe = "_" + safe[1:]
	}
	if strings.HasSuffix(safe, ".") {
		safe = safe[:len(safe)-1] + "_"
	}
	if safe == "" || isDevice(safe) {
		return "_" + safe
	}
	if len(safe) > most {
		safe = safe[:most] + "_" + hexOf(s, 12)
	}
	return safe
}

// isDevice reports whether Windows takes a name for a device, ignoring the part
// after its first dot.
func isDevice(name string) bool {
	name, _, _ = strings.Cut(strings.ToLower(name), ".")
	switch name {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(name) == 4 && (name[:3] == "com" || name[:3] == "lpt") && '0' <= name[3] && name[3] <= '9'
}

// hexOf returns n hexadecimal digits that are made from s.
func hexOf(s string, n int) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:n]
}

// sessionID returns the ID of a session as a part of file names: the ID itself if it is
// one. All programs take IDs of other forms than their own.
func sessionID(s Session) string { return safeName(cmp.Or(s.ID, hexOf(s.Key, 12))) }

// An indexRow is the row of a session in an index. Updated is the time of its last message.
type indexRow struct {
	Session
	file   string
	count  int
	tokens int64
}

func newIndexRow(s Session, file string) indexRow {
	s.Updated = s.Created
	return indexRow{Session: s, file: file}
}
