package exchange

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/transcript"
)

// Merge is like [Copy], but joins sessions that both stores have continued, on two
// machines for example. It changes only the store to, and deletes nothing there.
//
// The longer end, in entries, continues the session under its ID. The shorter end becomes
// a fork of it, for the same owner, with its whole history; [session.Info].Base names the
// session and the last common entry. The ID of the fork is made of the session's and of the
// first different entry, so machines that see the same difference choose the same ID. Three
// machines may see two, and then one end may become two forks. If the store has that fork
// already, the fork gets the further entries, whatever their number. If the fork continues
// differently, the end becomes another fork, named by the first entry that the fork lacks.
// A transcript with damage keeps its end.
//
// Queued texts go with their end, and only a program that drains the fork sends them. Base
// and Parent of other sessions still name the entries of an end that became a fork.
//
// A second call adds nothing, and completes a call that a kill has interrupted. Further
// entries in to stay as they are. A key keeps its current session; a session of a new key
// becomes current if it is current in from. Sessions that are archived in one store alone
// stay so unless they get entries. Sessions and forks in the trash are not merged, nor are
// those that package session/retain has deleted from to: [CopyResult].Left names the ends
// and the later entries that do not arrive. [Copy] brings a deleted session back.
//
// If a common entry was changed in one of the two, by an erase for example, the error
// matches [ErrDiverged] and that session stays as it is. Entries that to has erased from the
// session or from one of its forks give the same error: erase them in from as well. An
// erase of a whole session leaves no list of its entries. A driver that cannot replace
// lines gives an error that matches [errors.ErrUnsupported] if from has the longer end.
// Other users of a session whose end is replaced get [session.ErrReplaced] once. Other
// merges into to may run at the same time. The longer end is in memory until it is written.
func Merge(ctx context.Context, from, to *session.Store, opts *CopyOptions) (CopyReport, error) {
	c, err := newCopying(ctx, "merge", from, to, opts)
	if err != nil {
		return c.report, err
	}
	m := merging{copying: c, taken: map[string]bool{}, removed: map[session.Ref]retain.Removal{}, kin: map[session.Ref][]session.Ref{}}
	removals, err := retain.Removals(ctx, to)
	if err != nil {
		return c.report, c.wrap(err)
	}
	for _, r := range removals {
		m.removed[r.Ref] = r
	}
	for _, info := range c.there {
		m.kin[rootOf(info)] = append(m.kin[rootOf(info)], info.Ref)
		m.taken[keyOf(info)] = m.taken[keyOf(info)] || info.Current
	}
	// A fork comes before its base, whose end may belong into it.
	depth := func(a, b session.Info) int { return cmp.Compare(len(b.Descent), len(a.Descent)) }
	var errs []error
	for rest := slices.SortedStableFunc(slices.Values(c.infos), depth); len(rest) > 0; {
		n := slices.IndexFunc(rest, func(i session.Info) bool { return depth(rest[0], i) != 0 })
		if n < 0 {
			n = len(rest)
		}
		c.infos, rest = rest[:n], rest[n:]
		errs = append(errs, c.run(ctx, m.session))
	}
	return c.report, errors.Join(errs...)
}

// merging is a call of Merge.
type merging struct {
	*copying

	taken   map[string]bool                // by key: a session of the store is current
	kin     map[session.Ref][]session.Ref  // by root: sessions of the store
	removed map[session.Ref]retain.Removal // sessions that the store has deleted
}

// leaves returns how and when the store has removed a session, and "" if it has not.
func (m *merging) leaves(ref session.Ref, created time.Time) (how string, at time.Time) {
	there, ok := m.there[ref]
	r, removed := m.removed[ref]
	switch {
	case there.State == session.Trashed:
		return "in the trash", there.UpdatedAt
	case !ok && removed && r.CreatedAt.Equal(created):
		return "deleted", r.At
	}
	return "", at
}

func keyOf(i session.Info) string { return fmt.Sprintf("%q %q %q", i.Agent, i.Owner, i.Key) }

func (m *merging) session(ctx context.Context, info session.Info) (CopyResult, error) {
	if how, at := m.leaves(info.Ref, info.CreatedAt); how != "" {
		left := CopyResult{Ref: info.Ref}
		if info.UpdatedAt.After(at) {
			left.Left = how
		}
		return left, errLeft
	}
	s, err := m.from.Get(ctx, info.Ref)
	if err != nil {
		return CopyResult{Ref: info.Ref}, err
	}
	erased := func(ctx context.Context) error { return m.refuseErased(ctx, s, info) }
	c := m.copyOf(info.Ref, &m.CopyOptions, &join{current: info.Current && !m.taken[keyOf(info)], erased: erased, adapt: func(_ int, e transcript.Entry) transcript.Entry {
		if h, ok := e.Body.(transcript.Header); ok && h.Gen != 0 {
			h.Gen = 0
			return withBody(e, h)
		}
		return e
	}})
	switch err = c.run(ctx, s); {
	case err == nil && c.Created && !m.DryRun:
		err = c.put(ctx, info.State == session.Archived)
	case errors.Is(err, ErrDiverged) && c.join.changed != "":
		err = fmt.Errorf("%w (%s)", err, c.join.changed)
	case errors.Is(err, ErrDiverged) && c.join.at > 0:
		err = m.split(ctx, s, &c)
	}
	return c.CopyResult, err
}

// split makes the shorter of two ends a fork, and the longer one the end of the session.
func (m *merging) split(ctx context.Context, s *session.Session, c *lineCopy) error {
	mine, err := endOf(ctx, s, m.From, c.join)
	theirs, theirsErr := endOf(ctx, c.there, m.To, c.join)
	if err = cmp.Or(err, theirsErr); err != nil {
		return err
	}
	if c.join.revs != [2]int{mine.head.Rev, theirs.head.Rev} {
		return session.ErrReplaced // the difference is another one now
	}
	if mine.erasures == mine.lines {
		return nil
	}
	if err = c.join.check(ctx); err != nil {
		return err
	}
	_, err = m.to.Get(ctx, mine.fork())
	how, _ := m.leaves(mine.fork(), mine.head.Created)
	forked := err == nil || how != "" // by an earlier merge
	switch {
	case theirs.erasures == theirs.lines && theirs.damage == 0:
	case forked || theirs.damage > 0 || mine.lines < theirs.lines || mine.lines == theirs.lines && mine.first > theirs.first:
		f, err := m.fork(ctx, mine)
		c.Fork, c.Left, c.Appended = f.Ref, f.Left, f.Appended
		if f.Created {
			c.Appended -= mine.at
		}
		c.Blobs, c.Missing, c.Damage = f.Blobs, f.Missing, f.Damage
		return err
	default:
		f, err := m.fork(ctx, theirs)
		if c.Fork, c.Left = f.Ref, f.Left; err != nil {
			return err
		}
	}
	c.Appended = mine.lines
	return m.replace(ctx, c, mine, theirs)
}

// replace puts another end in the place of an old one, which a fork holds.
func (m *merging) replace(ctx context.Context, c *lineCopy, by, old end) error {
	var tail []transcript.Entry
	c.join.head = &by.head
	for rec, err := range c.join.records(by.s.Scan(ctx, session.ScanOptions{})) {
		if err != nil {
			return err
		}
		if !rec.HasEntry() {
			c.Damage = append(c.Damage, *rec.Damage)
			continue
		}
		if c.blobs.name(rec.Entry); by.at > 0 {
			by.at--
			continue
		}
		tail = append(tail, rec.Entry)
	}
	copied, missing, err := c.blobs.flush(ctx)
	if c.Blobs, c.Missing = copied, missing; err != nil || m.DryRun {
		return err
	}
	tail, err = c.there.FilterWrite(ctx, tail)
	if err == nil && c.archived {
		err = m.to.SetState(ctx, c.Ref, session.Live, -1)
	}
	if err != nil {
		return err
	}
	moved := map[string]bool{} // blobs that the old end names
	err = c.there.Rewrite(ctx, func(records iter.Seq2[transcript.Record, error], write func(transcript.Entry) error) error {
		var own []transcript.Entry // which make the session current, or record an erase here
		n := 0
		for rec, err := range records {
			h, ok := rec.Entry.Body.(transcript.Header)
			switch {
			case err != nil:
				return err
			case ok && n == 0 && h.Rev != old.head.Rev:
				return session.ErrReplaced // the fork may hold words that were erased since
			case c.join.leavesOut(rec):
				own = append(own, rec.Entry)
				continue
			case n >= c.join.at && isErasure(rec.Entry):
				own = append(own, rec.Entry)
			case n >= c.join.at && rec.HasEntry():
				for b := range transcript.Blobs(rec.Entry) {
					moved[b.SHA256] = true
				}
			case rec.HasEntry() && n < c.join.at:
				err = write(rec.Entry)
			}
			if n++; err != nil {
				return err
			}
		}
		if n != old.at+old.lines {
			return session.ErrReplaced // it was continued: the next try copies the new lines
		}
		for _, e := range slices.Concat(tail, own) {
			if err := write(e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || m.To == nil {
		return err
	}
	// The fork has the media of the old end. A change that writes nothing keeps writers out.
	return c.there.Rewrite(ctx, func(records iter.Seq2[transcript.Record, error], _ func(transcript.Entry) error) error {
		for rec, err := range records {
			if err != nil {
				return err
			}
			for b := range transcript.Blobs(rec.Entry) {
				delete(moved, b.SHA256)
			}
		}
		return m.To.Delete(ctx, c.Ref, slices.Collect(maps.Keys(moved))...)
	})
}

// refuseErased returns an error if the session contains the words of entries that the
// other store has erased from it or from a session with a common beginning.
func (m *merging) refuseErased(ctx context.Context, s *session.Session, info session.Info) error {
	gone := map[string]bool{}
	for _, ref := range m.kin[rootOf(info)] {
		kin, err := m.to.Get(ctx, ref)
		if errors.Is(err, fs.ErrNotExist) {
			continue // in the trash
		}
		if err != nil {
			return err
		}
		for e, err := range kin.Entries(ctx, "") {
			if err != nil {
				return err
			}
			if e.Erased {
				gone[e.ID] = true
			}
			if b, ok := e.Body.(transcript.Erasure); ok {
				for _, id := range b.Entries {
					gone[id] = true
				}
			}
		}
	}
	if delete(gone, ""); len(gone) == 0 {
		return nil
	}
	for e, err := range s.Entries(ctx, "") {
		if err != nil {
			return err
		}
		if gone[e.ID] && !e.Erased {
			return fmt.Errorf("%w (the other store has erased entry %s: erase it here as well)", ErrDiverged, e.ID)
		}
	}
	return nil
}

// rootOf returns the session that a session and its forks begin with.
func rootOf(info session.Info) session.Ref {
	root := info.Ref
	if len(info.Descent) > 0 {
		root.ID = info.Descent[0].Session
	}
	return root
}

// fork brings the fork of a session with one of its ends up to date.
func (m *merging) fork(ctx context.Context, e end) (CopyResult, error) {
	o := m.CopyOptions
	o.From = e.blobs
	if e.blobs != nil {
		o.From = basis{e.blobs, e.s.Ref()}
	}
	ref := e.fork()
	if how, _ := m.leaves(ref, e.head.Created); how != "" {
		return CopyResult{Ref: ref, Left: how}, errLeft
	}
	if there, ok := m.there[ref]; ok && there.Base.Entry != e.base.Entry { // an earlier merge saw another difference
		e.first += "\n" + e.base.Entry
		return m.fork(ctx, e)
	}
	c := m.copyOf(ref, &o, &join{head: &e.head, adapt: func(n int, old transcript.Entry) transcript.Entry {
		switch b := old.Body.(type) {
		case transcript.Header:
			if n > 0 {
				break
			}
			old.ID = ref.ID
			b.Gen, b.Rev, b.Meta, b.Standing = 0, 0, e.head.Meta, e.standing
			b.Descent = append(slices.Clone(b.Descent), e.base)
			lines := b.Base.Lines
			b.Base = e.base
			b.Base.Lines = max(e.at-1, lines)
			return withBody(old, b)
		case transcript.Compaction:
			if n < e.at && b.Standing != nil { // the header has it
				b.Standing = nil
				return withBody(old, b)
			}
		case transcript.Rewind:
			if b.To == e.s.Ref().ID { // the beginning
				b.To = ref.ID
				return withBody(old, b)
			}
		}
		return old
	}})
	err := c.run(ctx, e.s)
	if errors.Is(err, ErrDiverged) && c.join.changed == "" && c.join.differs > e.differs {
		e.first, e.differs = c.join.mine, c.join.differs // that fork is another end's, which begins with the same entries
		return m.fork(ctx, e)
	}
	if err != nil {
		err = fmt.Errorf("its fork %s: %w", ref.ID, err)
	}
	return c.CopyResult, err
}

// basis holds the blobs of the session that a fork is made of.
type basis struct {
	blobs.Store

	ref session.Ref
}

func (b basis) Get(ctx context.Context, _ session.Ref, hash string) ([]byte, error) {
	return b.Store.Get(ctx, b.ref, hash)
}

func (b basis) List(ctx context.Context, _ session.Ref) ([]string, error) {
	return b.Store.List(ctx, b.ref)
}

// An end is the part of a session after the common entries.
type end struct {
	s        *session.Session
	blobs    blobs.Store
	at       int    // the number of common entries
	differs  int    // where it differs from the fork that another end has taken
	first    string // names its first entry that the other end lacks
	lines    int
	erasures int                // lines that record an erase in this store; they do not make an end
	damage   int                // damaged places in the session
	base     transcript.Link    // the last common entry
	head     transcript.Header  // its Meta is in force there, as is standing
	standing []transcript.Entry // without queued texts and drafts, which stay with the session
}

// fork names the session that the end becomes if it is the shorter one.
func (e end) fork() session.Ref {
	ref := e.s.Ref()
	ref.ID = uuid.NewHash(sha256.New(), uuid.Nil, []byte(ref.ID+"\n"+e.first+"\n"+e.base.Entry), 8).String()
	return ref
}

func endOf(ctx context.Context, s *session.Session, kept blobs.Store, j *join) (end, error) {
	e := end{s: s, blobs: kept, at: j.at, base: transcript.Link{Agent: s.Ref().Agent, Session: s.Ref().ID}}
	common := func(yield func(transcript.Record, error) bool) {
		n := -1
		for rec, err := range new(join).records(s.Scan(ctx, session.ScanOptions{})) {
			if err == nil && !rec.HasEntry() {
				e.damage++
				continue
			}
			if n++; err == nil && n >= j.at {
				e.lines++
				if isErasure(rec.Entry) {
					e.erasures++
				}
				if n == j.differs {
					e.first = nameOf(rec.Entry)
				}
				continue
			}
			if !yield(rec, err) {
				return
			}
		}
	}
	fold := rebuild.New(nil)
	for b, err := range transcript.Batches(common) {
		if err == nil {
			err = fold.Add(b)
		}
		if err != nil {
			return e, err
		}
		for _, one := range b.Entries {
			e.base.Entry = cmp.Or(one.ID, e.base.Entry)
			switch b := one.Body.(type) {
			case transcript.Header:
				e.head = b
			case transcript.Meta:
				e.add(b)
			}
		}
	}
	now := fold.Standing()
	for _, c := range now.Calibrations {
		e.standing = append(e.standing, transcript.Entry{Body: c})
	}
	e.standing = append(e.standing, rebuild.Standing{Values: now.Values, Pins: now.Pins}.Entries()...)
	return e, nil
}

func (e *end) add(m transcript.Meta) {
	if m.Title != nil {
		e.head.Meta.Title, e.head.Meta.TitleBy = m.Title, m.TitleBy
	}
	if m.Labels != nil {
		e.head.Meta.Labels = m.Labels
	}
	e.head.Meta.TTL, e.head.Meta.Keep = cmp.Or(m.TTL, e.head.Meta.TTL), cmp.Or(m.Keep, e.head.Meta.Keep)
}

func isErasure(e transcript.Entry) bool {
	_, ok := e.Body.(transcript.Erasure)
	return ok
}
