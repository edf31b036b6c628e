package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Erasure selects what to erase. The fields add up, with one exception: beside a
// Match, Owner and Sessions only say in which sessions it selects entries, and the
// sessions stay.
type Erasure struct {
	// Owner is a person: all of their sessions go, with transcripts, rows,
	// archives and blobs, and the entries that other sessions have copied from
	// them. Empty is nobody.
	Owner string
	// Sessions go in the same way.
	Sessions []Ref
	// Entries go, and the sessions stay. Copies of the entries in forks go too, also
	// if the session of a Selection was deleted.
	Entries []Selection
	// Match reports whether an entry goes. It is called with every entry, the
	// header included, and with the text of each draft as a whole. It must be a
	// pure function: Erase calls it again, also for what was appended since the
	// plan. Nil matches nothing. With Sessions and no Owner the Erasers are asked
	// for nothing.
	Match func(transcript.Entry) bool
}

// Selection is entries of a session.
type Selection struct {
	Session Ref      `json:"session"`
	Entries []string `json:"entries"`
}

// ErasePlan says what [Store.Erase] will erase. It holds IDs and no text, so it may
// be shown to a person, stored and used later. Erase also takes the copies of its
// entries in forks that were made since. A plan that was read back from JSON has no
// Match any more: it erases what it lists in the store, not what was appended or forked
// since, and cannot be used with Erasers.
type ErasePlan struct {
	ID       string      `json:"id"`
	At       time.Time   `json:"at"`
	Sessions []Ref       `json:"sessions,omitempty"` // those that go as a whole
	Entries  []Selection `json:"entries,omitempty"`
	Archived []Ref       `json:"archived,omitempty"` // sessions of Entries that are archived, and will be again
	// Places are all places that something goes from, those of the Erasers
	// included.
	Places []transcript.Place `json:"places"`
	// Kept are entries that Match matches even when they are erased, because names
	// of tools and values, keys and IDs stay. Erase the session if these must go.
	Kept []transcript.Place `json:"kept,omitempty"`

	subject *transcript.Subject // nil if the plan was read back from JSON
	among   map[Ref]bool        // what Match is for; nil is every session
	chosen  []Selection         // what is looked for in other sessions, too
}

// match is that of the Erasure, nil if there is none.
func (p *ErasePlan) match() func(transcript.Entry) bool {
	if p.subject == nil {
		return nil
	}
	return p.subject.Match
}

// EraseReport is the receipt of [Store.Erase].
type EraseReport struct {
	ID   string    `json:"id"` // of the plan
	Done time.Time `json:"done"`
	// Places are those that something was erased from.
	Places []transcript.Place `json:"places"`
	Kept   []transcript.Place `json:"kept,omitempty"` // as those of the plan
	// Beyond says what an erase does not reach.
	Beyond []string `json:"beyond"`
}

// beyondReach is the Beyond of every report.
var beyondReach = []string{
	"exports, and copies of the folder that were made outside of the store: backups, snapshots of the file system",
	"archives beside transcripts that lack lines of them, as after a partly restored backup: the store's log names them",
	"blocks of the disk that are free now, until they are used again",
	"what model providers and tools were sent",
	"logs that the application writes",
	"what programs that have read the sessions keep in memory",
}

// beside returns what the Erasers are to erase: nothing if it is entries of some
// sessions that match.
func (p *ErasePlan) beside() transcript.Subject {
	if p.among != nil && p.subject.Owner == "" {
		return transcript.Subject{}
	}
	return *p.subject
}

// within takes out of a plan what the scope has not: somebody else may have made
// the plan or changed it. Nothing of that may get into the note, which the next
// Open acts on without a scope.
func (st *Store) within(ctx context.Context, p *ErasePlan) error {
	if st.owner == "" {
		return nil
	}
	if p.subject != nil {
		own := *p.subject
		if own.Owner != "" && own.Owner != st.owner {
			return errNotHere
		}
		if own.Match != nil {
			own.Owner = st.owner
		}
		p.subject = &own
	}
	var failed error
	foreign := func(ref Ref) bool {
		_, err := st.drv.Get(ctx, ref)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = err
		}
		return err != nil
	}
	p.Sessions = slices.DeleteFunc(slices.Clone(p.Sessions), foreign)
	p.Archived = slices.DeleteFunc(slices.Clone(p.Archived), foreign)
	p.Entries = slices.DeleteFunc(slices.Clone(p.Entries), func(s Selection) bool { return foreign(s.Session) })
	p.Places, p.Kept = nil, nil // nobody reads them in a note
	return failed
}

// allRows returns the rows of every session.
func (st *Store) allRows(ctx context.Context) ([]*driver.Row, error) {
	return st.listRows(ctx, &ListOptions{State: AnyState}, st.opts.Now)
}

func (st *Store) recordsOf(ctx context.Context, ref Ref) records {
	return st.drv.Scan(ctx, ref, 0, driver.Forward)
}

// eraser returns what erases entries of a session.
func (st *Store) eraser(ref Ref, ids map[string]bool, p *ErasePlan) *eraser {
	x := &eraser{st: st, ref: ref, asked: ids}
	if p.among == nil || p.among[ref] {
		x.match = p.match()
	}
	return x
}

// eraseNote is what the name of a note about an erase begins with.
const eraseNote = "erase-"

// noteOf returns the name of the note about an erase. That of a scope is not that
// of anybody else, whatever the ID of the plan is.
func (st *Store) noteOf(p *ErasePlan) string {
	if st.owner == "" {
		return eraseNote + p.ID
	}
	sum := sha256.Sum256([]byte(st.owner))
	return eraseNote + p.ID + "-" + hex.EncodeToString(sum[:8])
}

// Erase carries out a plan. When the error is nil, nothing that the plan selects is
// left in the store or with the Erasers: not in transcripts, rows, archives,
// summaries and carried members, clips, sources of imports, drafts, state or blobs.
// Sessions that lost only entries still load, and their histories are as valid as
// before. They also lose the reasoning behind an erased entry, because a provider
// would refuse it there. A retry under the idempotency key of an erased append is
// still found as repeated.
//
// Erase first records the plan in the store. After an error it may be called again
// with the same plan, and the report is about that call alone. After a kill, [Open]
// finishes the erase in the store; for the Erasers, plan again. A process that is
// killed while it makes a fork, or the next session of a key, may leave one with words
// that were erased meanwhile: plan again. Other users of an erased session get
// [ErrReplaced] once, in a running turn too, and loops that follow it end as if it had
// been deleted.
//
// With a driver that is no [driver.Rewriter] only whole sessions can be erased, and not
// the copies in forks that are made during the call; any other plan gives an error that
// matches [errors.ErrUnsupported].
func (st *Store) Erase(ctx context.Context, p ErasePlan, also ...transcript.Eraser) (EraseReport, error) {
	report := EraseReport{ID: p.ID, Beyond: slices.Clone(beyondReach)}
	err := st.erase(ctx, &p, also, &report)
	report.Done = st.opts.Now().UTC()
	return report, st.wrap("erase", Ref{}, err)
}

func (st *Store) erase(ctx context.Context, p *ErasePlan, also []transcript.Eraser, report *EraseReport) error {
	switch {
	case p.ID == "":
		return errors.New("the plan is none that PlanErase has made: nothing was erased")
	case len(also) > 0 && p.subject == nil:
		return errors.New("the plan was read back from JSON and does not say what the Erasers are to erase: nothing was erased; plan again")
	}
	if err := st.within(ctx, p); err != nil {
		return err
	}
	rewriter, ok := st.drv.(driver.Rewriter)
	if !ok && (len(p.Entries) > 0 || p.match() != nil) {
		return fmt.Errorf("the driver of the store erases only whole sessions: %w", errors.ErrUnsupported)
	}
	if err := st.putNote(ctx, p); err != nil {
		return err
	}
	for _, other := range also {
		places, err := other.Erase(ctx, p.beside())
		report.Places = append(report.Places, places...)
		if err != nil {
			return err
		}
	}
	if err := st.eraseOwn(ctx, p, report); err != nil || !ok {
		return err
	}
	return rewriter.Note(ctx, st.noteOf(p), nil)
}

// putNote writes the note about an erase, if the driver keeps notes.
func (st *Store) putNote(ctx context.Context, p *ErasePlan) error {
	rewriter, ok := st.drv.(driver.Rewriter)
	if !ok {
		return nil
	}
	note, err := json.Marshal(p)
	if err == nil {
		err = rewriter.Note(ctx, st.noteOf(p), note)
	}
	return err
}

// erasing reports whether a note says that a session goes as a whole.
func (st *Store) erasing(ctx context.Context, ref Ref) (bool, error) {
	rewriter, ok := st.table.store.drv.(driver.Rewriter) // a scope shows no notes
	if !ok {
		return false, nil
	}
	notes, err := rewriter.Notes(ctx)
	for name, note := range notes {
		var p ErasePlan
		if strings.HasPrefix(name, eraseNote) && json.Unmarshal(note, &p) == nil && slices.Contains(p.Sessions, ref) {
			return true, nil
		}
	}
	return false, err
}

// eraseOwn erases what the store itself has. The sessions that go as a whole go last: a
// retry cannot find forks of a session that is gone.
func (st *Store) eraseOwn(ctx context.Context, p *ErasePlan, report *EraseReport) error {
	var errs []error
	done := map[Ref]bool{}
	for due, late := slices.Clone(p.Entries), false; ; late = true {
		slices.SortFunc(due, func(a, b Selection) int { return byName(a.Session, b.Session) })
		failed := len(errs)
		for _, s := range due {
			done[s.Session] = true
			if slices.Contains(p.Sessions, s.Session) {
				continue
			}
			err := st.eraseEntries(ctx, st.eraser(s.Session, setOf(s.Entries), p), report)
			if err == nil && slices.Contains(p.Archived, s.Session) {
				err = st.SetState(ctx, s.Session, Archived, -1)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, st.wrap("erase", s.Session, err))
			}
		}
		if late && len(errs) > failed {
			return errors.Join(errs...)
		}
		// A fork that is not seen here sees the note, or what was erased of its base.
		now, err := st.since(ctx, p, done)
		if err == nil && len(now.Entries) > 0 {
			p.Entries, p.Archived = slices.Concat(p.Entries, now.Entries), slices.Concat(p.Archived, now.Archived)
			err = st.putNote(ctx, p)
		}
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		if due = now.Entries; len(due) == 0 {
			break
		}
	}
	for _, ref := range p.Sessions {
		places := st.wholeOf(ctx, ref)
		switch err := st.Delete(ctx, ref); {
		case err == nil:
			report.Places = append(report.Places, places...)
		case !errors.Is(err, fs.ErrNotExist):
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func byName(a, b Ref) int { return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.ID, b.ID)) }

// eraseEntries erases entries of one session, unless there are none or all of them are
// erased.
func (st *Store) eraseEntries(ctx context.Context, x *eraser, report *EraseReport) error {
	recs := st.recordsOf(ctx, x.ref)
	places, err := x.find(recs)
	if errors.Is(err, ErrReplaced) && !errors.Is(err, fs.ErrNotExist) {
		places, err = x.find(recs)
	}
	if err == nil && len(places) == 0 && len(x.asked) > 0 { // an earlier try may have ended before the blobs went
		s := &Session{store: st, ref: x.ref}
		if err = s.sweepErased(ctx); !errors.Is(err, ErrArchived) {
			return err
		}
		if err = st.SetState(ctx, x.ref, Live, -1); err == nil {
			err = cmp.Or(s.sweepErased(ctx), st.SetState(ctx, x.ref, Archived, -1))
		}
		return err
	}
	if err != nil || len(places) == 0 {
		return err
	}
	rewriter, err := able[driver.Rewriter](st.drv)
	if err != nil {
		return err
	}
	row, err := st.drv.Get(ctx, x.ref)
	if err == nil && row.Archived {
		err = st.SetState(ctx, x.ref, Live, -1)
	}
	if err != nil {
		return err
	}
	err = rewriter.Rewrite(ctx, x.ref, func(recs records, write func([]byte) error) (err error) {
		if places, err = x.find(recs); err != nil { // more may have come since
			return err
		}
		return x.lines(recs, write)
	})
	st.table.forget(x.ref)
	if err != nil {
		return err
	}
	report.Places, report.Kept = append(report.Places, places...), append(report.Kept, x.kept...)
	if err := st.describeAnew(ctx, x.ref); err != nil || !row.Archived {
		return err
	}
	report.Places = append(report.Places, x.place("archive", ""))
	return st.SetState(ctx, x.ref, Archived, -1)
}

// describeAnew puts the row of a session whose lines were replaced, and removes
// what they do not name any more.
func (st *Store) describeAnew(ctx context.Context, ref Ref) error {
	s, err := st.open(ctx, "erase", driver.Row{Agent: ref.Agent, ID: ref.ID})
	if err != nil {
		return err
	}
	t := st.table.acquire(s.ref)
	defer st.table.release(t)
	err = s.sweepErased(ctx)
	t.rowDue.Store(true)
	st.putRow(ctx, t, true)
	return err
}

// finishErase finishes what a killed process was erasing, by the note about it.
func (st *Store) finishErase(ctx context.Context, rewriter driver.Rewriter, name string, note []byte) error {
	var p ErasePlan
	if !strings.HasPrefix(name, eraseNote) {
		return nil
	}
	if err := json.Unmarshal(note, &p); err != nil || p.ID == "" || !strings.HasPrefix(name, eraseNote+p.ID) {
		return fmt.Errorf("the note %s about an erase that was not finished cannot be read: plan it again, then remove the file", name)
	}
	if err := st.eraseOwn(ctx, &p, new(EraseReport)); err != nil {
		return err
	}
	return rewriter.Note(ctx, name, nil)
}
