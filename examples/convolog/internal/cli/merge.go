package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/filename"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// readTranscript reads a file of any name with the lines of a session, a transcript or an
// archive. Damaged places are left out. It reads no further than a first record that is not
// a header.
func readTranscript(name string) (ref session.Ref, entries []transcript.Entry, damage int, err error) {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() { // a FIFO would make open wait
		err = fmt.Errorf("%s is not a regular file: %w", name, fs.ErrInvalid)
	}
	if err != nil {
		return ref, nil, 0, err
	}
	file, err := os.Open(name)
	if err != nil {
		return ref, nil, 0, err
	}
	defer func() { _ = file.Close() }() // only read
	var text io.ReaderAt = file
	size := info.Size()
	if filepath.Ext(name) == ".gz" {
		var all []byte
		if all, err = unpack(file); err != nil {
			return ref, nil, 0, err
		}
		text, size = bytes.NewReader(all), int64(len(all))
	}
	var h transcript.Header
	ok := false
	for rec, err := range dialect.Native.Scan(text, size, nil) {
		if err == nil && !ok {
			if h, ok = rec.Entry.Body.(transcript.Header); !ok {
				break
			}
		}
		switch {
		case err != nil:
			return ref, nil, 0, err
		case rec.HasEntry():
			entries = append(entries, rec.Entry)
		default:
			damage++
		}
	}
	if !ok {
		return ref, nil, 0, fmt.Errorf("%s is not a transcript of this program: convolog import brings in others", name)
	}
	key, err := session.ParseKey(h.Key)
	ref = session.Ref{Agent: key.Agent, ID: entries[0].ID}
	if whole, err := filepath.Abs(name); err == nil {
		if _, err := rootOf(whole); err == nil {
			ref.Agent = agentOf(filepath.Dir(filepath.Dir(whole)))
		}
	}
	return ref, entries, damage, err
}

// nameOf names an entry by its ID, or by its line if another program wrote it without one.
func nameOf(e transcript.Entry) string { return cmp.Or(e.ID, string(e.WithChecksum().Line())) }

// unpack returns the content of an archive.
func unpack(packed io.Reader) ([]byte, error) {
	zip, err := gzip.NewReader(packed)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(zip)
}

// isRenamed reports whether the header of a session's file names another session than the
// name of the file.
func isRenamed(name string) bool {
	id := headerOf(name)
	return id != "" && filename.Encode(id) != path.Base(sessionOf(name))
}

// headerOf returns the ID in the header of a transcript or an archive, and "" for any other
// file. It reads the first line.
func headerOf(name string) string {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() { // a FIFO would make open wait
		return ""
	}
	file, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }() // only read
	var text io.Reader = file
	if filepath.Ext(name) == ".gz" {
		if text, err = gzip.NewReader(file); err != nil {
			return ""
		}
	}
	line, err := bufio.NewReader(io.LimitReader(text, transcript.DefaultMaxLine)).ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	for rec, err := range dialect.Native.Scan(bytes.NewReader(line), int64(len(line)), nil) {
		if _, ok := rec.Entry.Body.(transcript.Header); ok && err == nil {
			return rec.Entry.ID
		}
		break
	}
	return ""
}

// rootOf returns the store that the file of a session is in.
func rootOf(file string) (string, error) {
	full, err := filepath.Abs(file)
	root := filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(full))))
	if err == nil && filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(full)))) != "agents" {
		err = fmt.Errorf("%s is not in the folder of a store: %w", file, fs.ErrNotExist)
	}
	return root, err
}

// storeOf returns the store that a name means, for a transcript the store around it.
func (c *call) storeOf(name string) (string, error) {
	if info, err := os.Stat(name); strings.Contains(name, "://") || err != nil || info.IsDir() {
		return name, nil
	}
	root, err := rootOf(name)
	if err != nil {
		return "", wrong("%s is not in the folder of a store: name a folder; merge makes a new one", name)
	}
	return root, nil
}

// mergeFrom opens the store to merge, or a store in memory with the session of a
// transcript.
func (c *call) mergeFrom(ctx context.Context, name string) (*session.Store, blobs.Store, error) {
	if info, err := os.Stat(name); strings.Contains(name, "://") || err != nil || info.IsDir() {
		return c.copyFrom(ctx, name)
	}
	ref, entries, damage, err := readTranscript(name)
	if err != nil {
		return nil, nil, err
	}
	if damage > 0 && !c.json {
		c.say("%s: left out %s", name, count(damage, "damaged place"))
	}
	root, err := rootOf(name)
	if err != nil {
		root = c.args[1]
	}
	store := session.OpenDriver(memdriver.New(nil), nil)
	return store, blobs.Folder(root), load(ctx, store, ref, entries)
}

// load puts a session into a store in memory.
func load(ctx context.Context, store *session.Store, ref session.Ref, entries []transcript.Entry) error {
	h, _ := entries[0].Body.(transcript.Header)
	key, err := session.ParseKey(h.Key)
	if err != nil {
		return err
	}
	key.Agent = ref.Agent
	s, err := store.Create(ctx, key, &session.CreateOptions{Header: &entries[0], Aside: h.Gen == 0})
	if err != nil {
		return err
	}
	info, err := s.Info(ctx)
	if err == nil {
		_, err = s.AppendLines(ctx, info.End, entries[1:]...)
	}
	return err
}

// entriesOfKin returns the names of the entries in a session of the store and in its forks,
// and the IDs of entries that were erased there.
func entriesOfKin(ctx context.Context, store *session.Store, ref session.Ref) (has, erased map[string]bool, err error) {
	infos, err := store.List(ctx, &session.ListOptions{State: session.EveryState, Key: session.Key{Agent: ref.Agent}})
	has, erased = map[string]bool{}, map[string]bool{}
	for _, i := range infos {
		isFork := slices.ContainsFunc(i.Descent, func(base transcript.Link) bool { return base.Session == ref.ID })
		s, getErr := store.Get(ctx, i.Ref)
		if i.ID != ref.ID && (!isFork || getErr != nil) || s == nil { // not a fork in the trash
			continue
		}
		for rec, scanErr := range s.Scan(ctx, session.ScanOptions{}) {
			if err = errors.Join(err, scanErr); scanErr != nil || !rec.HasEntry() {
				continue
			}
			if has[nameOf(rec.Entry)] = true; rec.Entry.Erased {
				erased[rec.Entry.ID] = true
			}
			if b, ok := rec.Entry.Body.(transcript.Erasure); ok {
				for _, id := range b.Entries {
					erased[id] = true
				}
			}
		}
	}
	delete(erased, "")
	return has, erased, err
}

// eraseCopy erases the entries of a copy in memory that the store has erased, so that a
// merge brings in the rest.
func eraseCopy(ctx context.Context, from, to *session.Store) error {
	infos, err := from.List(ctx, nil)
	for _, i := range infos {
		_, erased, kinErr := entriesOfKin(ctx, to, i.Ref)
		s, getErr := from.Get(ctx, i.Ref)
		if err = errors.Join(err, kinErr, getErr); err != nil || len(erased) == 0 {
			return err
		}
		err = s.Rewrite(ctx, func(records iter.Seq2[transcript.Record, error], write func(transcript.Entry) error) error {
			for rec, err := range records {
				if erased[rec.Entry.ID] && !rec.Entry.Erased {
					rec.Entry = rec.Entry.Erase()
				}
				if err = errors.Join(err, write(rec.Entry)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return err
}

// conflict describes a file that holds a copy of a session of the store, as programs that
// sync folders leave them. The header names the session, so the name of the file may be
// any.
func (f *folder) conflict(ctx context.Context, name string) (finding, bool) {
	if headerOf(name) == "" {
		return finding{}, false
	}
	ref, entries, _, err := readTranscript(name)
	if err != nil {
		return finding{}, false
	}
	_, err = f.Get(ctx, ref)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return finding{}, false
	}
	missing := err != nil
	has, erased, err := entriesOfKin(ctx, f.Store, ref)
	removed, removedErr := retain.Removals(ctx, f.Store)
	if errors.Join(err, removedErr) != nil {
		return finding{}, false
	}
	lacks, words := 0, 0
	for _, e := range entries {
		if erased[e.ID] && !e.Erased {
			words++
		}
		if _, ok := e.Body.(transcript.Current); !ok && !has[nameOf(e)] {
			lacks++
		}
	}
	h, _ := entries[0].Body.(transcript.Header)
	deleted := slices.ContainsFunc(removed, func(r retain.Removal) bool { return r.Ref == ref && r.CreatedAt.Equal(h.Created) })
	found := finding{
		Kind: conflictCopy, Agent: ref.Agent, Session: ref.ID, Note: lacks == 0 && words == 0,
		Text: "This is a copy of session " + ref.ID + ", from a program that syncs folders or made by hand.",
		Way:  "the command brings these entries in and deletes nothing; then move the file away", Command: "convolog merge " + shellQuoted(name) + " " + shellQuoted(f.dir),
	}
	lacking := "the session and its forks lack"
	switch {
	case missing && len(has) > 0:
		found.Text += " The session is in the trash."
		found.Way = "the command leaves out sessions in the trash, so restore the session first, or move the file away"
	case missing && deleted:
		found.Text += " The session was deleted."
		found.Way, found.Command = "move the file away, or delete it; the command makes it a session again", "convolog import "+shellQuoted(name)+" --dir "+shellQuoted(f.dir)
	case missing:
		found.Text += " The store lacks that session."
		lacking = "the store lacks"
	}
	found.Text += fmt.Sprintf(" It contains %s that %s. Its entries are never read.", entriesOf(lacks), lacking)
	if words > 0 {
		found.Text += fmt.Sprintf(" It also contains the words of %s that the store has erased.", entriesOf(words))
		found.Way = "the command brings in the other entries; then delete the file"
	}
	switch {
	case lacks > 0:
	case words > 0:
		found.Way, found.Command = "delete the file", ""
	case sessionOf(name) != "":
		found.Note, found.Way, found.Command = false, "move the file away: its name makes lists show a session that cannot be read", ""
	default:
		found.Way, found.Command = "no action is needed; move the file away if you like", ""
	}
	return found, true
}

// shellQuoted returns an argument as a POSIX shell reads it.
func shellQuoted(arg string) string { return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'" }

func entriesOf(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}
