package replay_test

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/internal/replay"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

var opts = &replay.Options{Counter: words{}}

// words counts the words of texts.
type words struct{}

func (words) Count(system string, _ []transcript.Tool, messages []transcript.Message) int {
	n := len(strings.Fields(system))
	for _, m := range messages {
		n += len(strings.Fields(m.Text()))
	}
	return n
}

var _ tokens.Counter = words{}

// A text is a transcript in memory. It counts the records that scans have yielded.
type text struct {
	t       testing.TB
	data    []byte
	n       int64 // lines, which are a second apart
	records int
	sums    bool // lines have checksums
}

// textOf makes a transcript of a header and batches, see write.
func textOf(t testing.TB, batches ...string) *text {
	x := &text{t: t}
	x.add("", x.entry("s", transcript.Header{Version: transcript.Version, Key: "main:cli:user", Gen: 1}))
	for _, b := range batches {
		x.write(b)
	}
	return x
}

func (x *text) entry(id string, body transcript.Body) transcript.Entry {
	x.n++
	return transcript.Entry{ID: id, Time: time.Unix(x.n, 0).UTC(), Body: body}
}

// write appends a batch: lines as bodyOf reads them, separated by "; ". An idempotency key
// and a colon may come first.
func (x *text) write(batch string) (driver.Result, []transcript.Entry) {
	idem, lines, ok := strings.Cut(batch, ": ")
	if !ok {
		idem, lines = "", batch
	}
	var entries []transcript.Entry
	for line := range strings.SplitSeq(lines, "; ") {
		id, body, _ := strings.Cut(line, " ")
		entries = append(entries, x.entry(id, bodyOf(x.t, body)))
	}
	return x.add(idem, entries...)
}

// add appends the lines of a batch.
func (x *text) add(idem string, entries ...transcript.Entry) (driver.Result, []transcript.Entry) {
	start := len(x.data)
	for i := range entries {
		switch e := &entries[i]; {
		case i > 0:
			e.Part = i + 1
		case len(entries) > 1:
			e.Batch, e.Idem = len(entries), idem
		default:
			e.Idem = idem
		}
		entries[i] = entries[i].WithLine(nil)
		if x.sums {
			entries[i] = entries[i].WithChecksum()
		}
		x.data = append(append(x.data, entries[i].Line()...), '\n')
	}
	return driver.Result{Start: driver.Cursor(start), End: driver.Cursor(len(x.data))}, entries
}

// bodyOf reads the type of a line and its fields.
func bodyOf(t testing.TB, line string) transcript.Body {
	f := strings.Fields(line + " . . .") // absent fields
	arg := func(i int) string {
		if i >= len(f) || f[i] == "." {
			return ""
		}
		return f[i]
	}
	rest := func(i int) string {
		return strings.TrimSpace(strings.TrimSuffix(strings.Join(f[min(i, len(f)):], " "), ". . ."))
	}
	content := func(i int) transcript.TextBlock { return transcript.TextBlock{Text: rest(i)} }
	number := func(i int) (n int) {
		if s := arg(i); s != "" {
			var err error
			n, err = strconv.Atoi(s)
			require.NoError(t, err, line)
		}
		return n
	}
	switch f[0] {
	case "user":
		return transcript.MessageLine{Kind: transcript.TypeUser, Role: transcript.RoleUser}.WithContent(content(1))
	case "takes":
		return transcript.MessageLine{Kind: transcript.TypeUser, Role: transcript.RoleUser, Queued: arg(1)}.WithContent(content(2))
	case "answer": // of a model with tokens
		return transcript.MessageLine{Kind: transcript.TypeAssistant, Role: transcript.RoleAssistant, Model: arg(1), Usage: transcript.Usage{Input: number(2), Output: 1}}.WithContent(content(3))
	case "call": // of an answer, with an ID
		return transcript.MessageLine{Kind: transcript.TypeToolUse, Role: transcript.RoleAssistant, Of: arg(1)}.WithContent(transcript.ToolCallBlock{ID: arg(2), Name: "tool", Input: []byte("{}")})
	case "result":
		return transcript.MessageLine{Kind: transcript.TypeToolResult, Role: transcript.RoleUser}.WithContent(transcript.ToolResultBlock{CallID: arg(1), Content: []transcript.Block{content(2)}})
	case "compact": // first kept, covers to, turns before
		return transcript.Compaction{Summary: "summary", FirstKept: arg(1), CoversTo: arg(2), TurnsBefore: number(3)}
	case "rewind":
		return transcript.Rewind{To: arg(1)}
	case "hide":
		return transcript.Hide{Entries: strings.Split(arg(1), ",")}
	case "show":
		return transcript.Hide{Entries: strings.Split(arg(1), ","), Off: true}
	case "pin":
		return transcript.Pin{Entry: arg(1), Text: rest(2)}
	case "unpin":
		return transcript.Pin{Entry: arg(1), Off: true}
	case "value":
		return transcript.Value{Name: arg(1), Value: []byte(arg(2))}
	case "queued":
		return transcript.Queued{Content: []transcript.Block{content(1)}}
	case "draft":
		return transcript.Draft{Key: arg(1), Text: rest(2)}
	case "status":
		return transcript.ToolStatus{CallID: arg(1), Status: arg(2)}
	case "dispatch":
		return transcript.Dispatch{Call: arg(1), CallID: arg(2)}
	case "decide":
		return transcript.Decision{Call: arg(1), CallID: arg(2), Verdict: transcript.Verdict(arg(3)), By: "anna"}
	case "title":
		return transcript.Meta{Title: new(rest(1))}
	case "current":
		return transcript.Current{Gen: int64(number(1))}
	case "note":
		return transcript.Custom{Name: "note", Data: []byte("1")}
	}
	t.Fatalf("no such line: %s", line)
	return nil
}

// scan implements replay.Scan.
func (x *text) scan(from driver.Cursor, dir driver.Direction) iter.Seq2[transcript.Record, error] {
	scan := transcript.Scan
	if dir == driver.Backward {
		scan = transcript.ScanBackward
	}
	return x.counted(scan(bytes.NewReader(x.data), int64(len(x.data)), &transcript.ScanOptions{From: int64(from), Final: true}))
}

// sift implements replay.Sift.
func (x *text) sift(keep driver.Keep) iter.Seq2[transcript.Record, error] {
	kept := func(at int64, lines []byte) bool { return keep(driver.Cursor(at), lines) }
	return x.counted(transcript.Sift(bytes.NewReader(x.data), int64(len(x.data)), kept, &transcript.ScanOptions{Final: true}))
}

func (x *text) counted(recs iter.Seq2[transcript.Record, error]) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		for rec, err := range recs {
			x.records++
			if !yield(rec, err) {
				return
			}
		}
	}
}

// row is a row of the index that holds the ID alone.
var row = driver.Row{ID: "s", Agent: "main"}

// begin returns a reader of the lines that the history needs, or of all.
func (x *text) begin(whole bool) *replay.Reader {
	x.t.Helper()
	r := replay.New(opts)
	require.NoError(x.t, r.Begin(x.scan, row, whole))
	return &r
}

// row returns the row of a reader.
func (x *text) row(r *replay.Reader) driver.Row {
	x.t.Helper()
	row, err := r.Row(x.scan)
	require.NoError(x.t, err)
	return row
}

// shown returns the entries of a history, with "=" before those of the model.
func shown(fold *rebuild.Fold) string {
	var all []string
	h := fold.History()
	if h.Compaction != nil {
		all = append(all, "["+h.Compaction.Summary+"]")
	}
	for _, m := range h.Messages {
		mark := ""
		if m.Role == transcript.RoleAssistant {
			mark = "="
		}
		for _, o := range m.Origins {
			if o.Batch > 0 {
				all = append(all, mark+o.Entry)
			}
		}
	}
	return strings.Join(slices.Compact(all), " ")
}

// standing returns the state of a fold.
func standing(fold *rebuild.Fold) string {
	s := fold.Standing()
	var all []string
	for _, q := range s.Queued {
		all = append(all, "queued "+q.Entry+" "+q.Message.Text())
	}
	if s.Draft.Key != "" {
		all = append(all, "draft "+s.Draft.Key+" "+s.Draft.Text)
	}
	for _, p := range s.Pins {
		all = append(all, "pin "+p.Entry+" "+p.Text)
	}
	for _, v := range s.Values {
		all = append(all, fmt.Sprintf("value %s %s", v.Name, v.Value))
	}
	return strings.Join(all, "; ")
}
