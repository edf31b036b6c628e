package convlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/internal/filename"
	"github.com/convolog/convolog/transcript"
)

var _ transcript.Eraser = (*Log)(nil)

// PlanErase implements [transcript.Eraser]. The owner of a subject is a sender. In a chat
// without another sender all messages are erased, including replies. In other chats only
// the messages of that sender are erased. Match gets each message as an entry of the
// user or the assistant, with the sender and the Extra as application data.
func (l *Log) PlanErase(ctx context.Context, s transcript.Subject) ([]transcript.Place, error) {
	return l.eachFile(ctx, func(f logFile) (int, error) {
		gone, _, err := f.choose(ctx, s)
		return len(gone), err
	})
}

// Erase implements [transcript.Eraser]. If no message of a chat stays, its file is removed.
// Otherwise the time, role, channel and ID of an erased message stay, so that a second
// delivery does not write the message again. Erase needs permission to write to the
// folder. Writers may write at the same time.
func (l *Log) Erase(ctx context.Context, s transcript.Subject) ([]transcript.Place, error) {
	return l.eachFile(ctx, func(f logFile) (int, error) { return f.erase(ctx, s) })
}

// eachFile calls do for every log, and returns a place for each log in which do found
// messages.
func (l *Log) eachFile(ctx context.Context, do func(logFile) (int, error)) (places []transcript.Place, err error) {
	agents, err := l.names("agents")
	if err != nil {
		return nil, err
	}
	for _, enc := range agents {
		dir := path.Join("agents", enc, folderName)
		files, err := l.names(dir)
		if err != nil {
			return places, err
		}
		agent, ok := filename.Decode(enc)
		if !ok {
			agent = enc
		}
		for _, file := range files {
			if !strings.HasSuffix(file, ".jsonl") {
				continue
			}
			n, err := do(logFile{l, path.Join(dir, file)})
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return places, fmt.Errorf("convlog: erase: %w", err)
			}
			if n > 0 {
				places = append(places, transcript.Place{Kind: "channel", Agent: agent, Name: strings.TrimSuffix(file, ".jsonl"), Count: n})
			}
		}
	}
	return places, nil
}

// A logFile is a log to erase from.
type logFile struct {
	l    *Log
	name string
}

// choose returns the offsets of the entries to erase, and whether other entries stay.
func (f logFile) choose(ctx context.Context, s transcript.Subject) (gone map[int64]bool, others bool, err error) {
	alone, theirs := true, false
	for rec, err := range f.l.scan(f.name, transcript.Scan) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, false, err
		}
		if rec.HasEntry() {
			e, _ := parse(rec.Entry.Line())
			alone = alone && (e.Sender == "" || e.Sender == s.Owner)
			theirs = theirs || e.Sender == s.Owner
		}
	}
	gone = map[int64]bool{}
	for rec, err := range f.l.scan(f.name, transcript.Scan) {
		if err != nil {
			return nil, false, err
		}
		if !rec.HasEntry() {
			continue
		}
		e, _ := parse(rec.Entry.Line())
		hit := s.Owner == "" || e.Sender == s.Owner || alone && theirs
		if hit && s.Match != nil {
			hit = s.Match(e.spoken())
		}
		if hit = hit && (s.Owner != "" || s.Match != nil); hit && e.Content != transcript.ErasedText {
			gone[rec.Offset] = true
		} else if e.Content != transcript.ErasedText {
			others = true
		}
	}
	return gone, others, nil
}

// spoken returns the message as a transcript entry.
func (e Entry) spoken() transcript.Entry {
	f := transcript.MessageLine{Kind: transcript.TypeUser, Role: transcript.RoleUser}
	if e.Role == "assistant" {
		f.Kind, f.Role = transcript.TypeAssistant, transcript.RoleAssistant
	}
	about, _ := json.Marshal(map[string]any{"sender": e.Sender, "extra": e.Extra}) // strings and valid JSON always encode
	return transcript.Entry{ID: e.MessageID, Time: e.Time, App: about, Body: f.WithContent(transcript.TextBlock{Text: e.Content})}
}

func (f logFile) erase(ctx context.Context, s transcript.Subject) (n int, err error) {
	if gone, _, err := f.choose(ctx, s); err != nil || len(gone) == 0 {
		return 0, err
	}
	log, err := filelog.Open(f.l.root, f.name, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = log.Close() }() // nothing is unsynced
	empty := false
	err = log.Replace(ctx, func(to io.Writer, _ int64) error {
		gone, others, err := f.choose(ctx, s) // again, as now no writer can append
		if err != nil {
			return err
		}
		n, empty = len(gone), !others
		return f.without(gone, to)
	})
	if err == nil && empty {
		err = f.remove(ctx)
	}
	return n, err
}

// without writes the log without the words of erased entries. The new first line makes
// writers reopen the log.
func (f logFile) without(gone map[int64]bool, to io.Writer) error {
	if _, err := fmt.Fprintf(to, "{\"erased\":%q}\n", time.Now().UTC().Format(time.RFC3339Nano)); err != nil {
		return err
	}
	for rec, err := range f.l.scan(f.name, transcript.Scan) {
		if err != nil {
			return err
		}
		if !rec.HasEntry() {
			continue // an unknown line may contain words to erase
		}
		data := rec.Entry.Line()
		if gone[rec.Offset] {
			_, l := parse(data)
			l.Content, l.Sender = transcript.ErasedText, ""
			if data, err = json.Marshal(l); err != nil {
				return err
			}
		}
		if _, err := to.Write(append(slices.Clip(data), '\n')); err != nil {
			return err
		}
	}
	return nil
}

// remove removes a log whose messages are all erased, because its name reveals the chat.
func (f logFile) remove(ctx context.Context) error {
	log, err := filelog.Open(f.l.root, f.name, nil)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // nothing is unsynced
	release, err := log.Hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	for rec, err := range f.l.scan(f.name, transcript.Scan) {
		if err != nil {
			return err
		}
		if e, _ := parse(rec.Entry.Line()); rec.HasEntry() && e.Content != transcript.ErasedText {
			return nil // a writer appended in the meantime
		}
	}
	if err := f.l.root.Remove(f.name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return filelog.SyncDir(f.l.root, path.Dir(f.name))
}
