// Package zyhive reads the transcripts of ZyHive.
package zyhive

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
)

// A Reader reads the transcripts of ZyHive: a header, messages in an envelope,
// and compaction markers.
//
// Its documents put the kept messages before the marker, which names the first
// of them. Its program appends them again after the marker, with other times,
// and loads the lines after the last marker. Both become the same entries: the
// messages once, in their first place, and a compaction that names the first
// kept one. A [Writer] puts the marker before the first kept message, and
// nothing is repeated. If the program has trimmed a file it has moved the markers before
// all messages; their times reveal their old places.
type Reader struct {
	messages []message // in the order of the file
	markers  []marker
	ids      map[string]int // record ID -> message
	header   string         // the entry ID of a header that is the first record

	// The fields below are set by settle.
	repeats map[int64]bool        // offsets of messages that are there already
	moved   map[int64]int64       // offsets of markers, and of the records they preceded
	kept    map[int64]fields.Kept // by offset of the marker
}

type message struct {
	offset int64
	entry  string // the entry's ID
	hash   [16]byte
	time   time.Time
}

// marker is a compaction before messages[at].
type marker struct {
	offset    int64
	at        int
	firstKept string
	time      time.Time
}

// Genuine implements the interface of a program.
func (z *Reader) Genuine(r fields.Record) bool {
	switch r.Str("type") {
	case "session":
		return r["version"] != nil
	case "message":
		return r["message"] != nil && r["timestamp"] != nil
	case "compaction":
		return r["summary"] != nil && r["timestamp"] != nil
	}
	return false
}

// Decode implements the interface of a program.
func (z *Reader) Decode(r fields.Record, offset int64) ([]transcript.Entry, error) {
	id := fields.AtOffset(offset)
	switch kind := r.Text("type"); kind {
	case "":
		return nil, fields.Malformed("no type")
	case "session":
		return fields.Entries(id, fields.Time(r["createdAt"]), transcript.Header{Created: fields.Time(r["createdAt"])}), nil
	case "message":
		m := r.Object("message")
		role := m.Str("role")
		f, ok := m.Message(role, "content")
		switch {
		case role != string(transcript.RoleUser) && role != string(transcript.RoleAssistant):
			return fields.Entries(id, fields.Time(r["timestamp"]), transcript.Unknown{Kind: kind}), nil
		case !ok:
			return nil, fields.Malformed(`message record: unusable "content"`)
		}
		return fields.Entries(id, fields.Time(r["timestamp"]), f), nil
	case "compaction":
		return fields.Entries(id, fields.Time(r["timestamp"]), r.Compacted()), nil
	default:
		return fields.Entries(id, fields.Time(r["timestamp"]), transcript.Unknown{Kind: kind}), nil
	}
}

// Learn implements the interface of a program.
func (z *Reader) Learn(r fields.Record, offset int64, made []transcript.Entry) {
	switch b := made[0].Body.(type) {
	case transcript.Header:
		if len(z.messages)+len(z.markers) == 0 && z.header == "" {
			z.header = made[0].ID
		}
	case transcript.MessageLine:
		if id := r.Str("id"); id != "" {
			if z.ids == nil {
				z.ids = map[string]int{}
			}
			if _, twice := z.ids[id]; !twice {
				z.ids[id] = len(z.messages)
			}
		}
		m := message{offset: offset, entry: made[0].ID, time: made[0].Time}
		h := sha256.New()
		h.Write([]byte(b.Role))
		for _, block := range b.Content {
			h.Write([]byte{0})
			h.Write(transcript.MarshalBlock(block))
		}
		copy(m.hash[:], h.Sum(nil))
		z.messages = append(z.messages, m)
	case transcript.Compaction:
		z.markers = append(z.markers, marker{offset, len(z.messages), b.FirstKept, made[0].Time})
	}
}

// Settle finds the kept part of each marker. The program's list of messages
// follows the previous marker, so its numbers count from there.
func (z *Reader) Settle() {
	z.repeats, z.kept = map[int64]bool{}, map[int64]fields.Kept{}
	z.putBack()
	real := make([]int, 0, len(z.messages)) // indexes of the messages so far, each one once
	list := []int{}                         // the same in the program's list
	next := 0
	for i, marker := range z.markers {
		for ; next < marker.at; next++ {
			real, list = append(real, next), append(list, next)
		}
		end := len(z.messages)
		if i+1 < len(z.markers) {
			end = z.markers[i+1].at
		}
		after := make([]int, 0, end-next)
		for j := next; j < end; j++ {
			after = append(after, j)
		}
		kept, repeated := z.keeps(marker, real, list, after)
		for range repeated {
			z.repeats[z.messages[next].offset] = true
			next++
		}
		list = append([]int{}, kept[:repeated]...)
		switch {
		case len(kept) > 0:
			z.kept[marker.offset] = fields.Kept{First: z.messages[kept[0]].entry}
		case len(real) == 0: // as the program writes today: all kept messages follow the marker
			z.kept[marker.offset] = fields.Kept{CoversTo: z.header}
		case ordinal(marker.firstKept, "turn-") >= len(list) || ordinal(marker.firstKept, "msg-") == len(real)+1:
			z.kept[marker.offset] = fields.Kept{CoversTo: z.messages[real[len(real)-1]].entry}
		}
	}
}

// putBack moves markers to their places before the program trimmed the file:
// before the first message that is not older, if at least two messages are
// repeated there. Without repeats the marker stays: today the program writes
// the kept messages after it, and they are older too.
func (z *Reader) putBack() {
	z.moved = map[int64]int64{}
	for i, m := range z.markers {
		if m.at > 0 || i == mostMoved {
			break
		}
		if m.time.IsZero() || ordinal(m.firstKept, "msg-") == 1 {
			continue
		}
		at := slices.IndexFunc(z.messages, func(said message) bool { return !said.time.Before(m.time) })
		if at <= 0 {
			continue
		}
		all := make([]int, len(z.messages))
		for j := range all {
			all[j] = j
		}
		if z.overlap(all[:at], all[at:]) < 2 {
			continue
		}
		z.moved[m.offset] = z.messages[at].offset
		z.markers[i].at = at
	}
	slices.SortStableFunc(z.markers, func(a, b marker) int { return cmp.Compare(a.at, b.at) })
}

// mostMoved limits the examined markers: each is compared with all messages,
// and held in memory until its place.
const mostMoved = 64

// Delay implements the interface of a program.
func (z *Reader) Delay(offset int64) (before int64, ok bool) {
	before, ok = z.moved[offset]
	return before, ok
}

// keeps returns the messages before the marker that it keeps, and the number of
// later messages that repeat the first of them.
func (z *Reader) keeps(m marker, real, list, after []int) (kept []int, repeated int) {
	if n, ok := z.ids[m.firstKept]; ok && m.firstKept != "" {
		if i, ok := slices.BinarySearch(real, n); ok {
			return real[i:], 0
		}
	}
	// The program writes "turn-N", the N-th message of its list, from 0.
	// "msg-N" is in the documents, from 1, with no message IDs it could match.
	if n := ordinal(m.firstKept, "turn-"); n >= 0 && n < len(list) {
		kept = list[n:]
		for repeated < len(kept) && repeated < len(after) && z.same(kept[repeated], after[repeated]) {
			repeated++
		}
		if repeated > 0 {
			return kept, repeated
		}
	} else if n := ordinal(m.firstKept, "msg-"); n > 0 && n <= len(real)+1 {
		return real[n-1:], 0
	}
	if n := z.overlap(list, after); n > 0 {
		return list[len(list)-n:], n
	}
	return kept, 0
}

func (z *Reader) same(a, b int) bool { return z.messages[a].hash == z.messages[b].hash }

// overlap returns the length of the longest end of list that after begins
// with, in linear time.
func (z *Reader) overlap(list, after []int) int {
	if len(list) > len(after) {
		list = list[len(list)-len(after):]
	}
	border := make([]int, len(after)) // of each beginning of after
	for i, n := 1, 0; i < len(after); i++ {
		for n > 0 && !z.same(after[i], after[n]) {
			n = border[n-1]
		}
		if z.same(after[i], after[n]) {
			n++
		}
		border[i] = n
	}
	n := 0
	for _, at := range list {
		for n > 0 && (n == len(after) || !z.same(at, after[n])) {
			n = border[n-1]
		}
		if n < len(after) && z.same(at, after[n]) {
			n++
		}
	}
	return n
}

func ordinal(id, prefix string) int {
	digits, ok := strings.CutPrefix(id, prefix)
	if !ok {
		return -1
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// Place implements the interface of a program.
func (z *Reader) Place(offset int64, made []transcript.Entry) []transcript.Entry {
	if z.repeats[offset] {
		return fields.SetAside(made, "repeat")
	}
	if k, ok := z.kept[offset]; ok {
		return k.Place(made)
	}
	return made
}
