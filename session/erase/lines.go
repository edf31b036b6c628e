package erase

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// idemKey is the kind of a place that holds an idempotency key.
const idemKey = "idempotency key"

// An eraser takes words out of the lines of one transcript.
type eraser struct {
	ref   session.Ref
	asked map[string]bool             // IDs of entries of this session, or of sessions whose lines it has copied
	match func(transcript.Entry) bool // nil matches nothing

	gone   map[string]bool     // IDs of entries to erase: requested, matching, or repeating their words
	hashed map[int]bool        // batches whose IdemHash was made from erased words
	at     map[string]position // by entry ID
	first  int                 // the first erased line that a model may have seen
	absent bool                // some entries in gone are not in this transcript
	places []transcript.Place
	beside []transcript.Place // erased only together with places
	kept   []transcript.Place

	fold *rebuild.Fold // of the new lines, ignoring compactions; nil if no lines are written
}

// eraser returns the eraser of entries of a session.
func (p *Plan) eraser(ref session.Ref, ids map[string]bool) *eraser {
	x := &eraser{ref: ref, asked: ids}
	if p.among == nil || p.among[ref] {
		x.match = p.match()
	}
	return x
}

// A position holds the index of an entry among the records, and the index of the first
// entry of its batch.
type position struct{ line, batch int }

// inState is the position of an entry that exists only as state in another line.
var inState = position{-1, -1}

// seenByModels lists the types of lines whose words may have been in a request. Of a
// decision, this is the reason of a rejection.
var seenByModels = []string{"user", "assistant", "tool_use", "tool_result", "system", "compaction", "clip", "pin", "decision"}

// find sets the places to erase. It finds none if no entry matches, or if everything
// was erased before.
func (x *eraser) find(recs records) error {
	x.places = nil
	if err := x.read(recs); err != nil || len(x.gone) == 0 {
		return err
	}
	if err := x.rewrite(recs, nil); err != nil || len(x.places) == 0 {
		return err
	}
	x.places = append(x.places, x.beside...)
	return nil
}

// read finds the entries that go.
func (x *eraser) read(recs records) error {
	x.gone, x.at, x.hashed, x.first, x.absent, x.fold = map[string]bool{}, map[string]position{}, map[int]bool{}, math.MaxInt, false, nil
	maps.Copy(x.gone, x.asked)
	same, seen, p := newKin(), map[string]bool{}, position{}
	note := func(e transcript.Entry, at position) {
		if was, again := x.at[e.ID]; !again || was == inState {
			x.at[e.ID] = at
		}
		if x.match != nil && !e.Erased && x.match(e) {
			x.gone[e.ID] = true
		}
		same.add(e)
	}
	for rec, err := range recs {
		if err != nil {
			return err
		}
		if e := rec.Entry; rec.HasEntry() {
			if err := understood(e); err != nil {
				return about(x.ref, err)
			}
			if e.Part <= 1 {
				p.batch = p.line
			}
			seen[e.ID] = !e.Erased && slices.Contains(seenByModels, e.Type())
			note(e, p)
			for _, held := range e.Standing() {
				if held.ID != "" && held.Idem == "" { // a key holds no words
					note(held, inState)
				}
			}
		}
		p.line++
	}
	same.spread(x.gone, x.match)
	for id := range x.gone {
		at, here := x.lineOf(id)
		if x.absent = x.absent || !here; seen[id] {
			x.first = min(x.first, at.line)
		}
		if here {
			x.hashed[at.batch] = true
		}
	}
	return nil
}

// lineOf returns the position of the line of an entry.
func (x *eraser) lineOf(id string) (at position, here bool) {
	at, here = x.at[id]
	return at, here && at != inState
}

// lines writes the new lines of the transcript. It must be called after find.
func (x *eraser) lines(recs records, write func(transcript.Entry) error) error {
	x.fold = rebuild.New(&rebuild.Options{Full: true})
	if err := x.rewrite(recs, write); err != nil {
		return err
	}
	record := transcript.Erasure{Entries: slices.Sorted(maps.Keys(x.gone))}
	return write(transcript.Entry{ID: newID(), Time: time.Now().UTC().Truncate(time.Microsecond), Body: record})
}

// rewrite notes the places of erased words. If write is not nil, it also writes the
// lines without these words.
func (x *eraser) rewrite(recs records, write func(transcript.Entry) error) error {
	var batcher transcript.Batcher
	x.places, x.beside, x.kept = nil, nil, nil
	n, there, named := -1, map[string]bool{}, map[string]bool{} // hashes of blobs, before and after
	for rec, err := range recs {
		if err != nil {
			return err
		}
		if n++; !rec.HasEntry() {
			x.beside = append(x.beside, x.place("damage", "")) // its words cannot be read
			continue
		}
		e := x.changed(rec.Entry, n)
		addBlobs(there, rec.Entry)
		addBlobs(named, e)
		if write == nil {
			continue
		}
		if err := write(e); err != nil {
			return err
		}
		for _, b := range batcher.Add(e) {
			if err := x.fold.Add(b); err != nil {
				return err
			}
		}
	}
	for _, hash := range slices.Sorted(maps.Keys(there)) {
		if !named[hash] {
			blob := x.place("blob", "")
			blob.Name = hash
			x.places = append(x.places, blob)
		}
	}
	return nil
}

// addBlobs adds the hashes of the blobs that an entry names to a set.
func addBlobs(set map[string]bool, e transcript.Entry) {
	for blob := range transcript.Blobs(e) {
		set[blob.SHA256] = true
	}
}

// understood returns an error for an entry of a newer program, because this program
// might miss words in it.
func understood(e transcript.Entry) error {
	switch b := e.Body.(type) {
	case transcript.Header:
		if b.Version > transcript.Version {
			return fmt.Errorf("format version %d: nothing was erased; use a newer program: %w", b.Version, session.ErrNewerFormat)
		}
	case transcript.Unknown:
		if b.Critical {
			return fmt.Errorf("an entry of the type %q: nothing was erased; use a newer program: %w", b.Kind, session.ErrNewerFormat)
		}
	}
	return nil
}

func (x *eraser) place(kind, entry string) transcript.Place {
	return transcript.Place{Kind: kind, Agent: x.ref.Agent, Session: x.ref.ID, Entry: entry}
}

func (x *eraser) note(kind, entry string) { x.places = append(x.places, x.place(kind, entry)) }

// changed returns the new form of the n-th entry.
func (x *eraser) changed(e transcript.Entry, n int) transcript.Entry {
	if _, imported := e.Source(); imported { // another erased entry may share the source line
		x.beside = append(x.beside, x.place("source", e.ID))
		e = e.WithLine(nil)
	}
	e = x.restanding(e)
	c, isCompaction := e.Body.(transcript.Compaction)
	commit, isCommit := e.Body.(transcript.Commit)
	switch {
	case isCompaction:
		e = x.recompacted(e, c, n)
	case x.gone[e.ID] && !e.Erased:
		x.note(e.Type(), e.ID)
		e = e.Erase()
		if x.match == nil && e.Idem != "" {
			x.kept = append(x.kept, x.place(idemKey, e.ID))
		}
	case isCommit && !e.Erased && x.covers(commit.LastEntry, n):
		x.note("abstract", e.ID)
		e = e.Erase()
	case n > x.first:
		e = x.behind(e)
	}
	if x.unhashed(e) {
		e.IdemHash = transcript.ErasedHash
		e = e.WithLine(nil)
	}
	if x.match != nil && e.Erased && x.match(e) {
		x.kept = append(x.kept, x.place(e.Type(), e.ID))
	}
	return e
}

// unhashed reports whether the hash of an entry's batch must go. The first entry of a
// batch and keys hold the hash.
func (x *eraser) unhashed(e transcript.Entry) bool {
	at, here := x.lineOf(e.ID)
	return here && x.hashed[at.batch] && e.Idem != "" && e.IdemHash != transcript.ErasedHash
}

// restanding returns an entry without the erased parts of its state.
func (x *eraser) restanding(e transcript.Entry) transcript.Entry {
	was := e.Standing()
	if _, isHeader := e.Body.(transcript.Header); isHeader && x.match == nil { // keys of lines that a fork lacks
		for _, held := range was {
			if held.Idem != "" && x.gone[held.ID] {
				x.kept = append(x.kept, x.place(idemKey, held.ID))
			}
		}
	}
	left := slices.DeleteFunc(slices.Clone(was), func(held transcript.Entry) bool {
		return held.ID != "" && held.Idem == "" && (x.gone[held.ID] || x.match != nil && x.match(held))
	})
	changed := len(left) < len(was)
	for i, held := range left {
		if x.unhashed(held) {
			left[i].IdemHash, changed = transcript.ErasedHash, true
		}
	}
	if !changed {
		return e
	}
	x.note("standing", e.ID)
	switch b := e.Body.(type) {
	case transcript.Compaction:
		b.Standing = left
		e.Body = b
	case transcript.Header:
		b.Standing = left
		e.Body = b
	}
	return e.WithLine(nil)
}

// behind returns the new form of an entry after the first erased one: without parts
// that may repeat erased words.
func (x *eraser) behind(e transcript.Entry) transcript.Entry {
	switch b := e.Body.(type) {
	case transcript.Extracted: // the message of an error may quote anything
		if b.Err != "" && b.Err != transcript.ErasedText {
			x.note(e.Type(), e.ID)
			return e.Erase()
		}
	case transcript.Clip:
		clips := slices.Clone(b.Clips)
		for i, c := range clips {
			if x.gone[c.Entry] && c.Content != transcript.ErasedText {
				x.note("clip", e.ID)
				clips[i].Content = transcript.ErasedText
				e.Body = transcript.Clip{Clips: clips}
				e = e.WithLine(nil)
			}
		}
	default:
		bare := unsigned(e)
		if !bytes.Equal(bare.Line(), e.Line()) {
			x.note("reasoning", e.ID)
		}
		return bare
	}
	return e
}

// unsigned returns an entry without reasoning, without data that only the provider
// reads, and without blocks that package transcript does not know, such as blocks of
// provider tools. A provider may refuse these after a changed request, and they may
// repeat erased words. If the entry contains none of them, it is returned unchanged.
// Otherwise it gets a new line.
func unsigned(e transcript.Entry) transcript.Entry {
	f, _ := e.Body.(transcript.MessageLine)
	changed := len(f.Ext) > 0
	var kept []transcript.Block
	for _, b := range f.Content {
		own, stays := unsignedBlock(b, f.Role)
		changed = changed || own
		if stays != nil {
			kept = append(kept, stays)
		}
	}
	if !changed {
		return e
	}
	f.Ext = nil
	e.Body = f.WithContent(kept...)
	return e.WithLine(nil)
}

// unsignedBlock returns the rest of a block, or nil if nothing remains, and whether it
// removed anything.
func unsignedBlock(b transcript.Block, role transcript.Role) (changed bool, stays transcript.Block) {
	switch b := b.(type) {
	case transcript.ThinkingBlock, transcript.RedactedThinkingBlock:
		return true, nil
	case transcript.RawBlock:
		if role == transcript.RoleAssistant {
			return true, nil
		}
	case transcript.TextBlock:
		if role == transcript.RoleAssistant {
			return len(b.Extra) > 0, transcript.TextBlock{Text: b.Text}
		}
	case transcript.ToolCallBlock:
		return len(b.Extra) > 0, transcript.ToolCallBlock{ID: b.ID, Name: b.Name, Input: b.Input}
	case transcript.ToolResultBlock: // Extra names the tool set of its call
		changed, b.Extra = len(b.Extra) > 0, nil
		return changed, b
	}
	return false, b
}

// recompacted returns a compaction without erased carried items. If its summary may
// have read erased words, the compaction gets a new summary of the remaining text.
func (x *eraser) recompacted(e transcript.Entry, c transcript.Compaction, n int) transcript.Entry {
	c, dropped := c.WithoutCarried(func(entry string) bool { return x.gone[entry] || entry == "" && n > x.first })
	summed := c.Summary != transcript.ErasedText && (x.gone[e.ID] && !e.Erased || x.summarizes(c, n))
	if !dropped && !summed {
		return e
	}
	x.first = min(x.first, n) // models have seen the old form
	if dropped {
		x.note("carried", e.ID)
	}
	if summed {
		x.note("summary", e.ID)
		c.Summary = x.summary(c.CoversTo)
		e.Erased = e.Erased || x.asked[e.ID] // so the next erase finds it done
	}
	e.Body = c
	e = e.WithLine(nil)
	if x.match != nil && x.match(e) {
		return e.Erase()
	}
	return e
}

// summarizes reports whether the summary of the n-th line may have read erased words.
func (x *eraser) summarizes(c transcript.Compaction, n int) bool {
	return x.covers(c.CoversTo, n) || n >= x.first && slices.ContainsFunc(c.Read, func(id string) bool { return x.gone[id] })
}

// covers reports whether a text in the n-th line about the entries up to an ID may
// repeat erased words. A fork lacks the entries of its first summary.
func (x *eraser) covers(to string, n int) bool {
	at, here := x.lineOf(to)
	if !here {
		return x.absent || n > x.first
	}
	return n >= x.first && at.line >= x.first
}

// summary returns a summary of the history up to an entry.
func (x *eraser) summary(to string) string {
	end, here := x.lineOf(to)
	if !here || x.fold == nil {
		return transcript.ErasedText
	}
	msgs := x.fold.History().Messages
	behind := func(o transcript.Origin) bool { return x.at[o.Entry].line > end.line }
	if i := slices.IndexFunc(msgs, func(m transcript.Message) bool { return slices.ContainsFunc(m.Origins, behind) }); i >= 0 {
		msgs = msgs[:i]
	}
	text, err := compact.Extractive{}.Summarize(context.Background(), compact.Input{Messages: msgs})
	if err != nil { // no text is left to summarize
		return transcript.ErasedText
	}
	return text
}
