package filedriver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript/filelog"
)

// Two processes put rows while the journal is merged beside them, again and
// again; each, and who opens the store next, sees the last row of each session.
func TestMergeBesidePuts(t *testing.T) {
	s := newShop(t, 20)
	other, err := Open(s.dir, &Options{Sync: filelog.SyncNever})
	s.must(err)
	first := s.index()
	before := first.snapshot
	owner := strings.Repeat("o", 900)
	var wg sync.WaitGroup
	for i, d := range []*Driver{s.d, other} {
		wg.Go(func() {
			for n := range 3000 {
				id := fmt.Sprintf("s%04d", 2*(n%10)+i)
				if err := d.Put(t.Context(), driver.Row{ID: id, Agent: "main", Title: fmt.Sprint(n), Owner: owner}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	first.merges.Wait()
	check := func(when string, d *Driver) {
		t.Helper()
		a, err := d.agent(t.Context(), "main", false)
		s.must(err)
		a.idx.mu.Lock()
		defer a.idx.mu.Unlock()
		s.must(a.idx.refresh())
		for i := range 20 {
			id := fmt.Sprintf("s%04d", i)
			if row, ok := a.idx.rows.get(id); !ok || row.Title != fmt.Sprint(2990+i/2) {
				t.Errorf("%s: %s has title %q", when, id, row.Title)
			}
		}
		if a.idx.rows.len() != 20 {
			t.Errorf("%s: %d rows", when, a.idx.rows.len())
		}
	}
	check("the first", s.d)
	check("the other", other)
	if after := first.snapshot; before != nil && sameFile(before, after) {
		t.Error("nothing was merged")
	}
	fresh, err := Open(s.dir, &Options{ReadOnly: true})
	s.must(err)
	check("a third", fresh)
	s.must(fresh.Close())
	s.must(other.Close())
	s.must(s.d.Close())
	if temps, err := filepath.Glob(filepath.Join(s.dir, "agents/main/.tmp-*")); err != nil || len(temps) > 0 {
		t.Errorf("left behind: %v, %v", temps, err)
	}
}

// A process that ends at any step of a merge beside its appends loses nothing:
// what the snapshot lacks comes from the transcripts, and other processes see
// that they must look.
func TestDeadMergeBeside(t *testing.T) {
	for _, step := range []string{"written", "announced", "renamed", "emptied"} {
		t.Run(step, func(t *testing.T) {
			s := newShop(t, 4)
			x := s.index()
			s.must(x.hold(t.Context(), func(*filelog.Held) error { return nil }))
			other, err := Open(s.dir, &Options{Sync: filelog.SyncNever, Describe: s.d.opts.Describe})
			s.must(err)
			_, err = other.List(t.Context(), "main")
			s.must(err)

			rows := x.rows.clone()
			s.create("late", "k1") // in no snapshot
			s.must(s.d.Delete(t.Context(), driver.Ref{Agent: "main", ID: "s0000"}))
			temp, err := x.a.writeSnapshot(rows, x.generation+1)
			s.must(err)
			h, err := x.acquire(t.Context())
			s.must(err)
			if step != "written" {
				s.must(x.write(h, change{Merge: new(x.generation + 1)}))
			}
			if step == "renamed" || step == "emptied" {
				s.must(x.a.root.Rename(temp, snapshotName))
			}
			if step == "emptied" {
				s.must(os.Truncate(filepath.Join(s.dir, "agents/main", journalName), 0))
			}
			x.release(h)
			s.must(x.journal.Close()) // the process is gone

			// The other one writes without having looked.
			ref := driver.Ref{Agent: "main", ID: "s0002"}
			s.must(other.Put(t.Context(), driver.Row{ID: ref.ID, Agent: "main", Title: "put"}))
			for range 2 {
				s.open()
				for _, d := range []*Driver{other, s.d} {
					rows, err := d.List(t.Context(), "main")
					if err != nil || len(rows) != 4 {
						t.Errorf("%d sessions, %v", len(rows), err)
					}
					for _, row := range rows {
						if row.ID == "s0000" {
							t.Error("a deleted session is back")
						}
					}
					if row, err := d.Current(t.Context(), "main", "k1"); err != nil || row.ID != "late" {
						t.Errorf("the current session is %s, %v", row.ID, err)
					}
				}
				s.must(s.d.Close())
			}
			s.must(other.Close())
		})
	}
}

// The index holds a bounded part of a session, however much there is.
func TestEntriesAreBounded(t *testing.T) {
	s := newShop(t, 1)
	long := strings.Repeat("日", 100_000)
	row := driver.Row{
		ID: "s0000", Agent: "main", Title: long, Owner: "x" + long, Labels: []string{"a", "b", long, "c"},
		LastID: long, Base: 7, BaseID: long,
	}
	s.must(s.d.Put(t.Context(), row))
	for range 2 {
		got, ok := s.index().rows.get("s0000")
		if !ok || len(appendRow(nil, &got)) > 4<<10 || got.Base != 0 || strings.Join(got.Labels, " ") != "a b" ||
			!strings.HasSuffix(got.Title, "日…") || len(got.Title) > maxShown || len(got.Title) < maxShown-3 {
			t.Errorf("%d bytes, title of %d bytes, labels %.20q", len(appendRow(nil, &got)), len(got.Title), got.Labels)
		}
		s.reopen()
	}
	if len(row.Labels) != 4 {
		t.Error("the caller's labels were cut")
	}
	s.must(s.d.Close())
	data, err := os.ReadFile(filepath.Join(s.dir, "agents/main", snapshotName))
	s.must(err)
	if len(data) > 8<<10 {
		t.Errorf("the index has %d bytes", len(data))
	}
}

// Replacing a row costs few allocations: one is the row that is kept, the others
// look up the name of the journal and take its lock.
func TestPutAllocations(t *testing.T) {
	s := newShop(t, 3)
	row := driver.Row{ID: "s0001", Agent: "main", Title: "a title"}
	allocs := testing.AllocsPerRun(2000, func() { s.must(s.d.Put(t.Context(), row)) })
	t.Log(allocs, "allocations")
	if allocs > 8 {
		t.Errorf("%.0f allocations", allocs)
	}
	s.must(s.d.Close())
}
