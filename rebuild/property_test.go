package rebuild_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

var testTime = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)

// script turns bytes into a transcript: every byte writes a line or breaks
// something. IDs come from small sets, so that they collide.
func script(data []byte) []transcript.Batch {
	var (
		batcher transcript.Batcher
		batches []transcript.Batch
		n       int
		answer  string
	)
	next := func() byte {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return b
	}
	callID := func() string { return []string{"a", "b", "c", "", "é!"}[next()%5] }
	entryID := func() string { return fmt.Sprint("e", int(next())%(n+2)) }
	content := func() string {
		return []string{
			`"hi"`, `"  "`, `[{"type":"text","text":"x"}]`, `[]`, `null`,
			`[{"type":"text","text":"x"},{"type":"tool_use","id":"a","name":"f","input":{}}]`,
			`[{"type":"tool_result","tool_use_id":"a","content":"r"},{"type":"text","text":"y"}]`,
			`[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"z"}]`,
			`[{"type":"thinking","thinking":"t","signature":"s"}]`,
			`[{"type":"image","source":{"type":"url","url":"u"}}]`,
			`[{"type":"mystery","n":1}]`, `[{"type":"context","uri":"u"}]`,
			`[{"type":"tool_use","id":"b","name":"f","input":{}},{"type":"thinking","thinking":"t","signature":"s"}]`,
			`[{"type":"redacted_thinking","data":"d"},{"type":"tool_use","id":"c","name":"","input":[]}]`,
			`[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}]`,
		}[next()%15]
	}
	emit := func(line string) {
		e, err := transcript.ParseEntry([]byte(line))
		if err != nil {
			panic(line + ": " + err.Error())
		}
		batches = append(batches, batcher.Add(e)...)
	}
	for len(data) > 0 {
		n++
		id := fmt.Sprint("e", n)
		head := fmt.Sprintf(`"id":%q,"ts":"2026-11-20T08:00:00Z"`, id)
		switch b := next(); b % 4 {
		case 1:
			head += fmt.Sprintf(`,"batch":%d`, 2+b/4%3)
		case 2:
			head += fmt.Sprintf(`,"part":%d`, 2+b/4%3)
		case 3:
			if b > 200 {
				head += fmt.Sprintf(`,"batch":2,"idem":"k%d"`, b%2)
			}
		}
		switch next() % 16 {
		case 0, 1:
			emit(`{"type":"user",` + head + `,"content":` + content() + `}`)
		case 2, 3:
			stop := []string{"end_turn", "aborted", "error", "tool_use"}[next()%4]
			api := []string{"anthropic", "openai", ""}[next()%3]
			made := ""
			if b := next(); b%2 == 1 { // most of them name near entries
				after := entryID()
				if b%4 == 1 {
					after = fmt.Sprint("e", max(0, n-1-int(b/4)%4))
				}
				made = fmt.Sprintf(`,"after":%q,"thought":%q,"promptHash":%q`, after, entryID(), []string{"", "h"}[b/4%2])
			}
			emit(fmt.Sprintf(`{"type":"assistant",%s,"api":%q,"model":"m","stop_reason":%q%s,"content":%s}`, head, api, stop, made, content()))
			answer = id
		case 4, 5:
			mid := ""
			if b := next(); b%3 > 0 {
				mid = fmt.Sprintf(`,"mid":%q`, []string{answer, entryID()}[b%2])
			}
			input := []string{`{}`, `{"p":1}`, `null`, `"{\"a\":"`, `[]`}[next()%5]
			emit(fmt.Sprintf(`{"type":"tool_use",%s%s,"tool_use_id":%q,"name":%q,"input":%s}`, head, mid, callID(), []string{"f", "a b", ""}[next()%3], input))
		case 6, 7:
			emit(fmt.Sprintf(`{"type":"tool_result",%s,"tool_use_id":%q,"content":%s}`, head, callID(), content()))
		case 8:
			emit(fmt.Sprintf(`{"type":"rewind",%s,"to":%q}`, head, entryID()))
		case 9:
			emit(fmt.Sprintf(`{"type":"compaction",%s,"summary":%q,"firstKeptEntryId":%q,"coversTo":%q,"read":[%q]}`, head, []string{"S", " "}[next()%2], entryID(), entryID(), entryID()))
		case 10:
			emit(fmt.Sprintf(`{"type":"clip",%s,"clips":[{"entry":%q,"content":"c"},{"entry":%q,"block":%d,"content":"d"}]}`, head, entryID(), entryID(), next()%3))
		case 13:
			emit(fmt.Sprintf(`{"type":"dispatch",%s,"call":%q,"tool_use_id":%q}`, head, entryID(), callID()))
		case 15:
			if b := next(); b%4 == 0 {
				emit(fmt.Sprintf(`{"type":"interrupt",%s,"ended":%q}`, head, []string{"stopped", "failed", ""}[b/4%3]))
			} else {
				emit(fmt.Sprintf(`{"type":"hide",%s,"entries":[%q,%q],"off":%t}`, head, entryID(), entryID(), b%4 == 1))
			}
		case 14:
			emit(fmt.Sprintf(`{"type":"decision",%s,"call":%q,"tool_use_id":%q,"decision":%q,"reason":"r"}`,
				head, fmt.Sprint("e", max(0, n-1-int(next())%4)), callID(), []string{"hold", "approve", "reject", "?"}[next()%4]))
		case 12:
			if next()%2 == 0 {
				emit(fmt.Sprintf(`{"type":"system",%s,"text":"prompt of %s"}`, head, id))
			} else {
				emit(fmt.Sprintf(`{"type":"tools",%s,"tool_names":["of %s"]}`, head, id))
			}
		case 11:
			emit(fmt.Sprintf(`{"type":"custom",%s,"name":"x"}`, head))
			if next()%2 == 0 {
				batches = append(batches, batcher.Break()...)
			}
		}
	}
	return append(batches, batcher.Break()...)
}

func foldAll(t testing.TB, opts *rebuild.Options, batches []transcript.Batch) *rebuild.Fold {
	f := rebuild.New(opts)
	for _, b := range batches {
		require.NoError(t, f.Add(b))
	}
	return f
}

// The properties of design and docs/FORMAT.md, over any sequence of entries.
func FuzzFold(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x02\x00\x00\x05\x00\x06\x00\x00"))
	f.Add([]byte{0, 0, 0, 1, 2, 3, 0, 5, 2, 4, 1, 0, 0, 0, 0, 6, 0, 0, 0, 9, 0, 1, 2, 0, 8, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 400 {
			t.Skip()
		}
		batches := script(data)
		for _, opts := range []*rebuild.Options{nil, {Summary: rebuild.SummaryPair}, {Summary: rebuild.SummarySystem}, {Full: true}} {
			whole := foldAll(t, opts, batches)
			h := whole.History()

			// Asking in between changes nothing.
			asked := rebuild.New(opts)
			for _, b := range batches {
				require.NoError(t, asked.Add(b))
				asked.History()
				asked.Report()
			}
			require.Equal(t, mustJSON(h), mustJSON(asked.History()))
			require.Equal(t, h, asked.History())
			require.Equal(t, fmt.Sprint(whole.Turns(), whole.Report()), fmt.Sprint(asked.Turns(), asked.Report()))

			// A canonical history passes through unchanged.
			require.Equal(t, mustJSON(h), mustJSON(refold(t, h)))
			checkCanonical(t, h)

			// Followed by a user text it renders valid.
			entries, err := transcript.NewBatch(testTime, func() string { return "last" }, transcript.UserText("and now?"))
			require.NoError(t, err)
			h = foldAll(t, opts, append(slices.Clone(batches), transcript.Batch{Entries: entries, Complete: true})).History()
			checkCanonical(t, h)
			checkRendered(t, h)
		}
	})
}

// checkCanonical checks the properties of every canonical history, for all
// targets.
func checkCanonical(t testing.TB, h rebuild.History) {
	t.Helper()
	for i, m := range h.Messages {
		want := transcript.RoleUser
		if i%2 == 1 {
			want = transcript.RoleAssistant
		}
		if m.Role != want {
			t.Fatalf("message %d has role %s\n%s", i, m.Role, mustJSON(h))
		}
		if len(m.Content) == 0 || len(m.Origins) != len(m.Content) {
			t.Fatalf("message %d: %d blocks, %d origins\n%s", i, len(m.Content), len(m.Origins), mustJSON(h))
		}
		calls := m.ToolCalls()
		if len(calls) == 0 {
			continue
		}
		if i+1 == len(h.Messages) {
			t.Fatalf("calls at the end\n%s", mustJSON(h))
		}
		next := h.Messages[i+1].Content
		for j, c := range calls {
			if j >= len(next) {
				t.Fatalf("call %d of message %d has no result\n%s", j, i, mustJSON(h))
			}
			if r, ok := next[j].(transcript.ToolResultBlock); !ok || r.CallID != c.ID {
				t.Fatalf("call %d of message %d has no result in place\n%s", j, i, mustJSON(h))
			}
		}
	}
}
