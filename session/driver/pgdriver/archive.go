package pgdriver

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"

	"github.com/convolog/convolog/session/driver"
)

// Archive implements [driver.Rewriter]. The lines are kept in compressed blocks.
func (d *Driver) Archive(ctx context.Context, ref driver.Ref, at driver.Cursor) error {
	return d.still(ctx, "archive", ref, func(r driver.Row, err error) bool { return err == nil && r.Archived }, func(s *still) error {
		if s.row.Archived {
			return nil
		}
		if err := s.allow(at); err != nil {
			return err
		}
		return s.pack()
	})
}

// Restore implements [driver.Rewriter].
func (d *Driver) Restore(ctx context.Context, ref driver.Ref) error {
	return d.still(ctx, "restore", ref, func(r driver.Row, err error) bool { return err == nil && !r.Archived }, func(s *still) error {
		if !s.row.Archived {
			return nil
		}
		return s.unpack()
	})
}

// pack moves the lines of a session into compressed blocks.
func (s *still) pack() error {
	for page, err := range s.pages {
		if err != nil {
			return err
		}
		var block bytes.Buffer
		zip := gzip.NewWriter(&block)
		for _, l := range page {
			_, _ = zip.Write(append(l.data, '\n')) // into memory
		}
		_ = zip.Close()
		if err := s.exec("INSERT INTO {s}.blocks (body, first, last, data) VALUES ($1, $2, $3, $4)", s.body, page[0].seq, page[len(page)-1].seq, block.Bytes()); err != nil {
			return err
		}
	}
	if err := s.exec("DELETE FROM {s}.lines WHERE body = $1", s.body); err != nil {
		return err
	}
	return s.exec("UPDATE {s}.sessions SET archived = true WHERE agent = $1 AND id = $2", s.row.Agent, s.row.ID)
}

// unpack moves the lines of a session back out of the blocks.
func (s *still) unpack() error {
	for page, err := range s.pages {
		if err != nil {
			return err
		}
		all := make([]driver.Line, len(page))
		for i, l := range page {
			all[i] = driver.Line{ID: record(l.data, s.body, l.seq-1).Entry.ID, Data: l.data}
		}
		l, err := linesOf(all)
		if err == nil {
			err = s.insert(page[0].seq-1, l)
		}
		if err != nil {
			return err
		}
	}
	if err := s.exec("DELETE FROM {s}.blocks WHERE body = $1", s.body); err != nil {
		return err
	}
	return s.exec("UPDATE {s}.sessions SET archived = false WHERE agent = $1 AND id = $2", s.row.Agent, s.row.ID)
}

// unzip returns the lines of a block after from and up to to. The first line of the block
// is line seq.
func unzip(block []byte, seq, from, to int64) (page []storedLine, err error) {
	zip, err := gzip.NewReader(bytes.NewReader(block))
	if err != nil {
		return nil, fmt.Errorf("an archived block is damaged: %w", err)
	}
	text, err := io.ReadAll(zip)
	if err != nil {
		return nil, fmt.Errorf("an archived block is damaged: %w", err)
	}
	for line := range bytes.Lines(text) {
		if seq > from && seq <= to {
			page = append(page, storedLine{seq, bytes.TrimSuffix(line, []byte{'\n'})})
		}
		seq++
	}
	return page, nil
}
