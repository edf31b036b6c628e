package convlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/internal/filename"
	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/transcript"
)

// A Log reads channel logs. It is for administrators: keep it out of reach of
// agents. It is safe for several goroutines.
type Log struct{ root *os.Root }

// Open returns a reader of the logs in the folder of a store.
func Open(dir string) (*Log, error) {
	root, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Log{root}, nil
}

// Close closes the folder.
func (l *Log) Close() error { return l.root.Close() }

// Info describes the log of a channel.
type Info struct {
	Channel
	Size    int64     `json:"size"` // in bytes
	Changed time.Time `json:"changed"`
}

// Channels returns the channels of an agent and of a type, the last written first. An
// empty agent means all agents, and an empty channelType all types. Channels reads the
// first entry of each log. If several chats share a file of ZyHive, it lists the file under
// the chat of that entry.
func (l *Log) Channels(ctx context.Context, agent, channelType string) (infos []Info, err error) {
	agents := []string{filename.Encode(agent)}
	if agent == "" {
		if agents, err = l.names("agents"); err != nil {
			return nil, err
		}
	}
	for _, enc := range agents {
		name, ok := filename.Decode(enc)
		if !ok {
			name = cmp.Or(agent, enc) // the agent's name was hashed: use the name of the folder
		}
		dir := path.Join("agents", enc, folderName)
		files, err := l.names(dir)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			info, ok := l.describe(dir, file, name)
			if ok && (channelType == "" || info.Type == channelType) {
				infos = append(infos, info)
			}
		}
	}
	slices.SortFunc(infos, func(a, b Info) int {
		return cmp.Or(b.Changed.Compare(a.Changed), strings.Compare(a.Agent, b.Agent), strings.Compare(a.id(), b.id()))
	})
	return slices.CompactFunc(infos, func(a, b Info) bool { return a.Channel == b.Channel }), nil
}

func (l *Log) names(dir string) ([]string, error) {
	if err := filelog.NoLinks(l.root, dir); err != nil {
		return nil, fmt.Errorf("convlog: %w", err)
	}
	f, err := l.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("convlog: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("convlog: %w", err)
	}
	return names, nil
}

func (l *Log) describe(dir, file, agent string) (info Info, ok bool) {
	stat, err := l.root.Lstat(path.Join(dir, file))
	if !strings.HasSuffix(file, ".jsonl") || err != nil || !stat.Mode().IsRegular() {
		return info, false
	}
	c, ok := l.firstOf(dir, file)
	c.Agent = agent
	return Info{c, stat.Size(), stat.ModTime()}, ok
}

// firstOf reads the channel from the first entry of a file.
func (l *Log) firstOf(dir, file string) (c Channel, ok bool) {
	for rec, err := range l.scan(path.Join(dir, file), transcript.Scan) {
		if err != nil {
			return c, false
		}
		if rec.HasEntry() {
			_, line := parse(rec.Entry.Line())
			return Channel{Type: line.ChannelType, Chat: strings.TrimPrefix(line.ChannelID, line.ChannelType+"-")}, true
		}
	}
	return c, false
}

type scanner = func(r io.ReaderAt, size int64, opts *transcript.ScanOptions) iter.Seq2[transcript.Record, error]

// A Query selects entries; the zero value selects all.
type Query struct {
	Sender string    `json:"sender,omitempty"`
	Text   string    `json:"text,omitempty"` // part of the content, compared as in package search
	Since  time.Time `json:"since,omitzero"` // entries at or after this time
	Until  time.Time `json:"until,omitzero"` // entries before this time
	// Before is the [Found].Place to continue from; if it is empty, the newest entry is
	// the first.
	Before string `json:"before,omitempty"`
}

// Found is an entry and its place.
type Found struct {
	Entry
	Place string `json:"place"` // opaque, for [Query].Before
}

// Entries yields the selected entries of a channel, the newest first. It leaves out lines
// that are not entries. A channel without a log yields no entries.
func (l *Log) Entries(ctx context.Context, c Channel, q Query) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		if err := l.entries(ctx, c, q, yield); err != nil {
			yield(Found{}, fmt.Errorf("convlog: %w", err))
		}
	}
}

func (l *Log) entries(ctx context.Context, c Channel, q Query, yield func(Found, error) bool) error {
	if err := c.check(); err != nil {
		return err
	}
	own, theirs := c.file(), c.zyhive()
	files := []string{own}
	const longest = 255 // bytes of a file name
	if theirs != own && fs.ValidPath(theirs) && len(theirs) <= longest {
		files = append(files, theirs)
	}
	var inFile, upTo int64
	if q.Before != "" {
		if _, err := fmt.Sscanf(q.Before, "%d:%d", &inFile, &upTo); err != nil || inFile < 0 || inFile >= int64(len(files)) {
			return fmt.Errorf("%q is not a place from Entries", q.Before)
		}
	}
	text := words.Fold(q.Text)
	for i, file := range files {
		if int64(i) < inFile {
			continue
		}
		for rec, err := range l.scan(path.Join(folder(c.Agent), file), transcript.ScanBackward) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
			if !rec.HasEntry() || q.Before != "" && int64(i) == inFile && rec.Offset >= upTo {
				continue
			}
			e, line := parse(rec.Entry.Line())
			switch {
			case line.ChannelID != c.id() || line.ChannelType != c.Type: // another chat shares ZyHive's file
			case q.Sender != "" && e.Sender != q.Sender:
			case text != "" && !strings.Contains(words.Fold(e.Content), text):
			case !q.Since.IsZero() && e.Time.Before(q.Since):
			case !q.Until.IsZero() && !e.Time.Before(q.Until):
			default:
				if !yield(Found{e, fmt.Sprintf("%d:%d", i, rec.Offset)}, nil) {
					return nil
				}
			}
		}
	}
	return nil
}

// scan yields the records of a file. A missing file yields no records.
func (l *Log) scan(name string, scan scanner) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		f, info, err := filelog.OpenFile(l.root, name)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			yield(transcript.Record{}, err)
			return
		}
		defer func() { _ = f.Close() }() // only read
		for rec, err := range scan(f, info.Size(), &transcript.ScanOptions{Final: true, Decode: decode}) {
			if !yield(rec, err) {
				return
			}
		}
	}
}
