package cli

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/driver/memdriver"
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
		if all, err = unpack(file, math.MaxInt64); err != nil {
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

// unpack returns at most n bytes of an archive.
func unpack(packed io.Reader, n int64) ([]byte, error) {
	zip, err := gzip.NewReader(packed)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(zip, n))
}

// isRenamed reports whether the header of a session's file names another session than the
// name of the file.
func isRenamed(name string) bool {
	id := headerOf(name)
	return id != "" && filedriver.EncodeName(id) != path.Base(sessionOf(name))
}

// headerOf returns the ID in the header of a transcript or an archive, and "" for any other
// file. It reads 64 KiB at most.
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
	const most = 64 << 10
	var text []byte
	if filepath.Ext(name) == ".gz" {
		text, err = unpack(file, most)
	} else {
		text, err = io.ReadAll(io.LimitReader(file, most))
	}
	if err != nil {
		return ""
	}
	for rec, err := range dialect.Native.Scan(bytes.NewReader(text), int64(len(text)), nil) {
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
	sessions := []*session.Session{}
	whole, has := "", "the session and its forks lack"
	s, err := f.Get(ctx, ref)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		whole, has = " The store lacks that session.", "the store lacks"
	case err != nil:
		return finding{}, false
	default:
		sessions = append(sessions, s)
	}
	infos, err := f.List(ctx, &session.ListOptions{State: session.EveryState, Key: session.Key{Agent: ref.Agent}})
	known := map[string]bool{}
	for _, i := range infos {
		for _, base := range i.Descent {
			if base.Session != ref.ID {
				continue
			}
			if fork, err := f.Get(ctx, i.Ref); err == nil {
				sessions = append(sessions, fork)
			}
		}
	}
	for _, s := range sessions {
		for rec, scanErr := range s.Scan(ctx, session.ScanOptions{}) {
			if err = errors.Join(err, scanErr); rec.HasEntry() {
				known[nameOf(rec.Entry)] = true
			}
		}
	}
	if err != nil {
		return finding{}, false
	}
	lacks := 0
	for _, e := range entries {
		if _, ok := e.Body.(transcript.Current); !ok && !known[nameOf(e)] {
			lacks++
		}
	}
	found := finding{
		Kind: conflictCopy, Agent: ref.Agent, Session: ref.ID, Note: lacks == 0,
		Text: fmt.Sprintf("This is a copy of session %s, from a program that syncs folders or made by hand.%s It contains %s that %s. Its entries are never read.", ref.ID, whole, entriesOf(lacks), has),
		Way:  "the command brings these entries in and deletes nothing; then move the file away", Command: "convolog merge " + shellQuoted(name) + " " + shellQuoted(f.dir),
	}
	switch {
	case lacks > 0:
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
