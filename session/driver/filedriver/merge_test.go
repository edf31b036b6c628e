package filedriver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
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

// When the journal cannot be written again after it was emptied, as on a full
// disk, no session is lost that was made while the snapshot was written, and no
// key gets a second one.
func TestRewriteFails(t *testing.T) {
	s := newShop(t, 4)
	x := s.index()
	other, err := Open(s.dir, &s.d.opts)
	s.must(err)
	_, err = other.List(t.Context(), "main")
	s.must(err)

	s.must(x.hold(t.Context(), func(*filelog.Held) error { return nil }))
	temp, err := x.a.writeSnapshot(x.rows.clone(), x.generation+1)
	s.must(err)
	s.create("late", "new") // in no snapshot
	err = x.hold(t.Context(), func(h *filelog.Held) error {
		next := x.generation + 1
		s.must(x.write(h, change{Merge: &next}))
		s.must(x.a.root.Rename(temp, snapshotName))
		info, err := x.a.root.Lstat(snapshotName)
		s.must(err)
		x.generation, x.snapshot, x.merging = next, info, false
		return x.rewrite(h, []byte("no line")) // refused when the file is empty
	})
	if err == nil {
		t.Fatal("what is no line was written")
	}
	s.must(s.d.Put(t.Context(), driver.Row{ID: "s0000", Agent: "main"}))
	for name, d := range map[string]*Driver{"this process": s.d, "another": other} {
		header := func(gen int64) (driver.Row, driver.Line) {
			e := transcript.Entry{ID: "second", Body: transcript.Header{Version: transcript.Version, Key: "new", Gen: gen}}
			return driver.Row{ID: "second"}, driver.Line{ID: "second", Type: e.Type(), Data: e.Line()}
		}
		if row, created, err := d.LoadOrCreate(t.Context(), "main", "new", header); err != nil || created || row.ID != "late" {
			t.Errorf("%s: session %s, created %v, %v", name, row.ID, created, err)
		}
		if rows, err := d.List(t.Context(), "main"); err != nil || len(rows) != 5 {
			t.Errorf("%s: %d sessions, %v, want 5", name, len(rows), err)
		}
	}
	s.must(other.Close())
	s.must(s.d.Close())
}

// A deletion is in force as long as the journal says it, in the process that
// did it too: what somebody restores after a merge is a session.
func TestRestoredAfterMerge(t *testing.T) {
	s := newShop(t, 4)
	ref := driver.Ref{Agent: "main", ID: "s0001"}
	copied, err := os.ReadFile(s.d.Path(ref))
	s.must(err)
	s.must(s.d.Delete(t.Context(), ref))
	x := s.index()
	s.must(x.hold(t.Context(), x.merge))
	s.must(os.WriteFile(s.d.Path(ref), copied, 0o600))

	other, err := Open(s.dir, &s.d.opts)
	s.must(err)
	_, err = other.Append(t.Context(), ref, []driver.Line{{ID: "y", Type: "custom", Data: transcript.Entry{ID: "y", Body: something}.Line()}}, driver.Cond{})
	s.must(err)
	s.must(other.Put(t.Context(), driver.Row{ID: ref.ID, Agent: "main", Title: "2"}))
	if row, err := s.d.Get(t.Context(), ref); err != nil || row.Title != "2" {
		t.Errorf("the process that deleted it: %+v, %v", row, err)
	}
	s.must(s.d.Close())
	if _, err := os.Stat(other.Path(ref)); err != nil {
		t.Error(err)
	}
	s.must(other.Close())
}

// A deletion behind the place that a snapshot was made at stays in force.
func TestDeletedBesideMerge(t *testing.T) {
	s := newShop(t, 4)
	x := s.index()
	s.must(x.hold(t.Context(), func(*filelog.Held) error { return nil }))
	rows, at := x.rows.clone(), x.applied
	temp, err := x.a.writeSnapshot(rows, x.generation+1)
	s.must(err)
	s.must(s.d.Delete(t.Context(), driver.Ref{Agent: "main", ID: "s0001"}))
	s.must(x.hold(t.Context(), func(h *filelog.Held) error { return x.install(h, temp, at) }))
	if !x.deleted["s0001"] {
		t.Error("the journal says that a session was deleted, and the process that wrote it does not know")
	}
	s.reopen()
	if rows, err := s.d.List(t.Context(), "main"); err != nil || len(rows) != 3 {
		t.Errorf("%d sessions, %v", len(rows), err)
	}
	s.must(s.d.Close())
}

// A mark that another process has left while a snapshot was written is the last
// line of the new journal, and who wrote that knows it.
func TestMarkBesideMerge(t *testing.T) {
	s := newShop(t, 20) // too many to be merged when the other process closes the store
	x := s.index()
	other, err := Open(s.dir, &s.d.opts)
	s.must(err)
	s.must(s.d.Put(t.Context(), driver.Row{ID: "s0001", Agent: "main"}))
	_, err = other.List(t.Context(), "main")
	s.must(err)
	at := x.applied
	temp, err := x.a.writeSnapshot(x.rows.clone(), x.generation+1)
	s.must(err)
	s.must(other.Close())
	s.must(x.hold(t.Context(), func(h *filelog.Held) error { return x.install(h, temp, at) }))
	fresh, err := Open(s.dir, &Options{ReadOnly: true})
	s.must(err)
	a, err := fresh.agent(t.Context(), "main", false)
	s.must(err)
	if !a.idx.marked || !x.marked {
		t.Errorf("marked %v, and who wrote it takes it for %v", a.idx.marked, x.marked)
	}
	s.must(fresh.Close())
	s.must(s.d.Close())
}

// A row that is put late, and says less than the one that another process has
// put, does not take its place, unless the transcript has become shorter.
func TestLatePut(t *testing.T) {
	s := newShop(t, 2)
	other, err := Open(s.dir, &s.d.opts)
	s.must(err)
	ref := driver.Ref{Agent: "main", ID: "s0001"}
	late, err := s.d.Get(t.Context(), ref)
	s.must(err)
	res, err := other.Append(t.Context(), ref, []driver.Line{{ID: "y", Type: "custom", Data: transcript.Entry{ID: "y", Body: something}.Line()}}, driver.Cond{})
	s.must(err)
	row := late
	row.Title, row.Size = "2", int64(res.End)
	s.must(other.Put(t.Context(), row))
	s.must(s.d.Put(t.Context(), late))
	for _, d := range []*Driver{s.d, other} {
		if got, err := d.Get(t.Context(), ref); err != nil || got.Title != "2" || got.Size != row.Size {
			t.Errorf("%+v, %v", got, err)
		}
	}
	s.must(other.Close())
	s.must(os.Truncate(s.d.Path(ref), late.Size)) // somebody put an older copy there
	late.Title = "1, as it is"
	s.must(s.d.Put(t.Context(), late))
	if got, ok := s.index().rows.get(ref.ID); !ok || got.Title != late.Title {
		t.Errorf("%+v", got)
	}
	s.must(s.d.Close())
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
