package transcript_test

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
)

// NewBatch returns the same entries, to the last field, as a reader of the
// lines decodes, and they stay the same whatever the caller does with the
// items. A session folds its own appends from them and not from the file.
func FuzzNewBatch(f *testing.F) {
	for kind := range byte(itemKinds) {
		for text := range byte(len(texts)) {
			f.Add([]byte{kind, text, 0, text, 1, text, 2, text, 3, text}, int64(text), "key")
		}
	}
	f.Add([]byte("0123456789012345678901234567890123456789"), int64(1)<<40, "\xff")
	f.Fuzz(func(t *testing.T, choices []byte, seconds int64, key string) {
		d := dice(choices)
		var items []transcript.Item
		for len(d) > 0 && len(items) < 8 {
			items = append(items, d.item())
		}
		now := time.Unix(seconds%(1<<40), 123_456_789)
		entries, err := transcript.NewBatch(now, func() string { return d.text() }, items...)
		if err != nil {
			return
		}
		if key != "" {
			if entries, err = transcript.WithIdem(entries, key); err != nil {
				return
			}
		}
		var read []transcript.Entry
		for _, e := range entries {
			again, err := transcript.ParseEntry(slices.Clone(e.Line()))
			require.NoError(t, err, "%s\ncannot be read", e.Line())
			read = append(read, again)
		}
		for _, when := range []string{"", "after the items were changed "} {
			for i, e := range entries {
				if !reflect.DeepEqual(e, read[i]) {
					t.Fatalf("%s\nis %s%#v\nand is read as %#v", read[i].Line(), when, e, read[i])
				}
			}
			scribble(reflect.ValueOf(items))
		}
	})
}

// A value nested too deeply for a line is refused, not written unreadably.
func TestNewBatchRefusesUnreadable(t *testing.T) {
	nested := raw(strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000))
	for _, item := range []transcript.Item{
		answer(call("t1", "f", string(nested))),
		transcript.Custom{Name: "n", Data: nested},
	} {
		if _, err := transcript.NewBatch(at, ids(), item); err == nil || !strings.Contains(err.Error(), "would not be readable") {
			t.Errorf("%T: %v", item, err)
		}
	}
	_, err := transcript.NewBatch(at, ids(), transcript.Custom{Name: "n", Data: nested[1 : len(nested)-1]})
	require.NoError(t, err)
}

// texts holds one of each kind that encoding or decoding treats differently.
var texts = []string{
	"", "plain", "\xff\xfe", "\"\\/\b\f\n\r\t\x00\x1f\x7f", "\u2028\u2029\u202a", "\ud7ff\ue000\U0010ffff\ufffd", " [1, 2.50 ] ",
	`{"a": "\u00e9\ud800",` + "\n\t" + `"a":1}`, "null", `{"type":"text","text":null}`, `{"type":"tool_use","id":"i","input":1}`, "truncated \xe2\x80",
}

const itemKinds = 26

// dice makes items from the choices of a fuzzer.
type dice []byte

func (d *dice) roll(n int) int {
	if len(*d) == 0 {
		return 0
	}
	c := (*d)[0]
	*d = (*d)[1:]
	return int(c) % n
}

func (d *dice) text() string { return texts[d.roll(len(texts))] }

// raw is nil, empty, JSON or none.
func (d *dice) raw() raw {
	switch d.roll(4) {
	case 0:
		return nil
	case 1:
		return raw{}
	}
	return raw(d.text())
}

func (d *dice) extra() transcript.Extra {
	switch d.roll(8) {
	case 0:
		return transcript.Extra{}
	case 1:
		return transcript.Extra{d.text(): d.raw(), "id": d.raw()}
	case 2:
		return transcript.Extra{"type": d.raw(), "extra": d.raw(), "ext": d.raw()}
	}
	return nil
}

func (d *dice) source() transcript.Source {
	return transcript.Source{Type: d.text(), MediaType: d.text(), Data: d.text(), URL: d.text(), FileID: d.text(), Extra: d.extra()}
}

func (d *dice) blocks() []transcript.Block {
	if d.roll(8) == 0 {
		return []transcript.Block{}
	}
	var blocks []transcript.Block
	for range d.roll(4) {
		blocks = append(blocks, d.block())
	}
	return blocks
}

func (d *dice) block() transcript.Block {
	switch d.roll(12) {
	case 0:
		return transcript.ThinkingBlock{Thinking: d.text(), Signature: d.text(), Extra: d.extra()}
	case 1:
		return transcript.ToolCallBlock{ID: d.text(), Name: d.text(), Input: d.raw(), Extra: d.extra()}
	case 2:
		return transcript.ToolResultBlock{CallID: d.text(), Content: d.blocks(), IsError: d.roll(2) == 1, Extra: d.extra()}
	case 3:
		b := transcript.ToolResultBlock{CallID: d.text()}.WithContent(transcript.TextBlock{Text: d.text()})
		if d.roll(3) == 0 {
			b.Content = d.blocks()
		}
		return b
	case 4:
		return transcript.ImageBlock{Source: d.source(), Extra: d.extra()}
	case 5:
		return transcript.DocumentBlock{Source: d.source(), Title: d.text(), Context: d.text(), Extra: d.extra()}
	case 6:
		return transcript.RedactedThinkingBlock{Data: d.text(), Extra: d.extra()}
	case 7:
		return transcript.ContextBlock{URI: d.text(), Kind: []string{"resource", "memory", "skill"}[d.roll(3)], Abstract: d.text(), Extra: d.extra()}
	case 8:
		return transcript.RawBlock{JSON: d.raw()}
	}
	return transcript.TextBlock{Text: d.text(), Extra: d.extra()}
}

func (d *dice) item() transcript.Item {
	switch d.roll(itemKinds) {
	case 0:
		return transcript.UserText(d.text())
	case 1:
		return transcript.AssistantText(d.text())
	case 2:
		m := transcript.UserText("replaced")
		m.Content = d.blocks()
		return m
	case 3:
		m := transcript.AssistantText("replaced")
		m.Content = d.blocks()
		return &m
	case 4:
		return transcript.Message{Role: transcript.RoleUser, Content: append(d.blocks(), d.block())}
	case 5:
		return &transcript.Response{
			Message: transcript.Message{Content: append(d.blocks(), d.block())}, API: d.text(), Model: d.text(),
			StopReason: transcript.StopReason(d.text()), RequestID: d.text(),
			Usage: transcript.Usage{Input: d.roll(3) - 1, Output: d.roll(2) * math.MaxInt, CacheRead: d.roll(2), Extra: d.extra()},
		}
	case 6:
		return transcript.Compaction{
			Summary: d.text(), FirstKept: d.text(), CoversTo: d.text(), TurnsBefore: d.roll(3), TokensAfter: -d.roll(3),
			Files: []transcript.Carried{{Entry: d.text(), Text: d.text(), Open: d.roll(2) == 0, Modified: d.roll(2) == 0, Tool: d.text(), Path: d.text(), To: d.text(), ToEntry: d.text()}},
		}
	case 7:
		clip := transcript.Clip{Clips: []transcript.Clipping{}}
		for range d.roll(3) {
			clip.Clips = append(clip.Clips, transcript.Clipping{Entry: d.text(), Content: d.text(), Block: new(d.roll(2))})
		}
		return clip
	case 8:
		return transcript.Rewind{To: d.text()}
	case 9:
		return transcript.Meta{Title: new(d.text()), Labels: []string{d.text(), d.text()}[:d.roll(3)], TTL: new(int64(d.roll(9))), Keep: new(d.roll(2) == 1)}
	case 10:
		return transcript.Calibration{Model: d.text(), Window: d.roll(4), Factor: float64(d.roll(7)-3) / 3}
	case 11:
		return transcript.ToolStatus{CallID: d.text(), Status: []string{"pending", "running", "completed", "error"}[d.roll(4)]}
	case 12:
		return transcript.Used{Contexts: []string{"a" + d.text(), "b" + d.text()}[:d.roll(3)], Skill: &transcript.SkillUse{
			URI: "s" + d.text(), Input: d.text(), Output: d.text(), Success: d.roll(2) == 0, Extra: d.extra(),
		}}
	case 14:
		return transcript.Dispatch{Call: d.text(), CallID: d.text()}
	case 15:
		return transcript.Decision{Call: d.text(), CallID: d.text(), Verdict: transcript.Verdict(d.text()), By: d.text(), Reason: d.text()}
	case 16:
		return transcript.Queued{Content: append(d.blocks(), d.block())}
	case 17:
		return transcript.Draft{Key: d.text(), At: d.roll(3), Text: d.text(), API: d.text(), Model: d.text(), Off: d.roll(2) == 0, Made: transcript.Made{After: d.text(), Thought: d.text()}}
	case 18:
		return transcript.Pin{Entry: d.text(), Text: d.text(), Off: d.roll(2) == 0}
	case 19:
		return transcript.Value{Name: d.text(), Value: d.raw()}
	case 20:
		return transcript.WithApp(transcript.UserText(d.text()), d.raw())
	case 21:
		return transcript.Pin{Entry: d.text()}
	case 22:
		return transcript.Dequeued(transcript.UserText(d.text()), d.text())
	case 24:
		return transcript.Interrupt{By: d.text(), Ended: d.text()}
	case 25:
		return transcript.Hide{Entries: []string{d.text(), d.text()}[:d.roll(3)], Off: d.roll(2) == 0}
	case 13:
		return transcript.Commit{
			N: d.roll(3), Messages: d.roll(2), FirstEntry: d.text(), LastEntry: d.text(), Abstract: d.text(), Overview: d.text(),
			Runs: []transcript.Run{{First: d.text(), Last: d.text()}, {}}[:d.roll(3)], Stats: transcript.CommitStats{Commits: d.roll(2), Skills: d.roll(2)},
			Open: []string{d.text()}[:d.roll(2)], Owner: d.text(),
		}
	case 23:
		return transcript.Extracted{Commit: d.text(), Diff: d.text(), Err: d.text(), Counts: map[string]transcript.ExtractedCount{d.text(): {Added: d.roll(3), Failed: d.roll(2)}}}
	}
	return transcript.Custom{Name: d.text(), Data: d.raw()}
}

// scribble changes all memory that v shares.
func scribble(v reflect.Value) {
	if !v.IsValid() || !v.CanInterface() {
		return
	}
	switch v.Kind() { //nolint:exhaustive // the others hold nothing that is shared
	case reflect.Interface:
		scribble(v.Elem())
	case reflect.Pointer:
		if !v.IsNil() {
			scribble(v.Elem())
			v.Elem().SetZero()
		}
	case reflect.Slice:
		for i := range v.Len() {
			scribble(v.Index(i))
			if e := v.Index(i); e.Kind() == reflect.Uint8 {
				e.SetUint('X')
			} else {
				e.SetZero()
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			scribble(v.MapIndex(key))
			v.SetMapIndex(key, reflect.Value{})
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			scribble(field)
		}
	}
}
