package search_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/recalltool"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// searchVocabulary has words of five scripts, and words of programs.
var searchVocabulary = [][]string{
	strings.Fields("the user reads getUserByID a/b/c.go prod-eu-17 HTTPServer Straße ÜBER naïve v2 x_y 4,200 K k\u212a ſs ＦＵＬＬ it's it’s e\u0301t ét ﬁle ﬁ\u00adle x² ❤️ 👍🏽"),
	strings.Fields("привет мир Данные ДАННЫХ ёлка сервер читает"),
	strings.Fields("数据库 连接 数据 用户读取 库 預算，很重要"),
	strings.Fields("データベース ﾃﾞｰﾀ を読む ユーザー ﾕｰｻﾞｰ ｶﾅ か\u3099 한글 \u1112\u1161\u11ab"),
	strings.Fields("สวัสดี ครับ ข้อมูล ผู้ใช้ سلام سَلَامٌ שלום שָׁלוֹם"),
}

// searchDoc is an entry, as seen by a naive search.
type searchDoc struct {
	ref        session.Ref
	id         string
	role, kind string
	tool, text string
	acked      bool
}

// naiveQuery is a query and its meaning.
type naiveQuery struct {
	search.Query
	fits func(text string) bool
}

type searchWorld struct {
	*rand.Rand
	mu    sync.Mutex // guards docs
	docs  []*searchDoc
	calls int
}

func (w *searchWorld) word() string {
	list := searchVocabulary[w.IntN(len(searchVocabulary))]
	return list[w.IntN(len(list))]
}

func (w *searchWorld) text() string {
	var sb strings.Builder
	for range 1 + w.IntN(12) {
		sb.WriteString(w.word())
		sb.WriteString([]string{" ", " ", " ", ", ", "\n", "\t", "", `"`, `\`, "\u2028", " \u001b[1m"}[w.IntN(11)])
	}
	if w.IntN(40) == 0 {
		sb.WriteString(strings.Repeat("filler of a long result\n", 200))
	}
	return strings.TrimSpace(sb.String()) + "."
}

// add notes a document, which exists once it is acked.
func (w *searchWorld) add(d *searchDoc) *searchDoc {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.docs = append(w.docs, d)
	return d
}

func (w *searchWorld) ack(id string, docs ...*searchDoc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range docs {
		if d.id == "" {
			d.id = id
		}
		d.acked = true
	}
}

// write appends an entry to a session.
func (w *searchWorld) write(t testing.TB, s *session.Session) {
	text := w.text()
	doc := &searchDoc{ref: s.Ref(), text: text, role: "user", kind: "text"}
	switch w.IntN(6) {
	case 0:
		doc.role = "assistant"
		w.add(doc)
		w.ack(storetest.Add(t, s, transcript.AssistantText(text))[0], doc)
	case 1:
		w.calls++
		id, tool := fmt.Sprint("c", w.calls%7), []string{"read", "bash", recalltool.Search}[w.IntN(3)]
		input, err := json.Marshal(map[string]any{"q": text, "n": w.calls})
		require.NoError(t, err)
		said := fmt.Sprint(w.calls) + "\n" + text // members are sorted by name
		in := w.add(&searchDoc{ref: s.Ref(), text: said, role: "assistant", kind: "tool_use", tool: tool})
		ids := storetest.Add(t, s, useTool(id, tool, string(input)))
		w.ack(ids[len(ids)-1], in)
		out := w.add(&searchDoc{ref: s.Ref(), text: w.text(), role: "tool", kind: "tool_result", tool: tool})
		w.ack(storetest.Add(t, s, transcript.ToolResult(id, out.text))[0], out)
	case 2: // as another program might write it
		w.calls++
		doc.id = fmt.Sprintf("escaped-%d", w.calls)
		var sb strings.Builder
		for _, r := range text {
			if r < 0x10000 && w.IntN(3) > 0 {
				fmt.Fprintf(&sb, `\u%04x`, r)
				continue
			}
			quoted, err := json.Marshal(string(r))
			require.NoError(t, err)
			sb.Write(quoted[1 : len(quoted)-1])
		}
		line := fmt.Sprintf(`{"content":[{"text":"%s","type":"text"}], "ts":"2026-01-01T00:00:00Z", "id":"%s" ,"type":"user"}`, sb.String(), doc.id)
		e, err := transcript.ParseEntry([]byte(line))
		require.NoError(t, err)
		w.add(doc)
		var end int64
		for rec, err := range s.Scan(t.Context(), session.ScanOptions{}) {
			require.NoError(t, err)
			end = rec.End
		}
		_, err = s.AppendLines(t.Context(), end, e)
		require.NoError(t, err)
		w.ack("", doc)
	default:
		w.add(doc)
		w.ack(storetest.Add(t, s, transcript.UserText(text))[0], doc)
	}
}

func normal(text string) string {
	return strings.Join(strings.Fields(words.Fold(text)), " ")
}

// normalized caches the results of normal for the texts of documents.
var normalized sync.Map

func normalOnce(text string) string {
	if n, ok := normalized.Load(text); ok {
		return n.(string)
	}
	n := normal(text)
	normalized.Store(text, n)
	return n
}

// standsIn reports whether a text contains a piece, character by character, at
// word boundaries if required.
func standsIn(text, piece string, begins, ends bool) bool {
	want := normal(piece)
	if !strings.Contains(normalOnce(text), want) {
		return false
	}
	for at := range text {
		if r, _ := utf8.DecodeRuneInString(text[at:]); unicode.IsSpace(r) || begins && !words.Boundary(text, at) {
			continue
		}
		for end := at; end < len(text); {
			r, size := utf8.DecodeRuneInString(text[end:])
			end += size
			if unicode.IsSpace(r) {
				continue
			}
			got := normal(text[at:end])
			if got == want && (!ends || words.Boundary(text, end)) && words.Fold(text[:at])+words.Fold(text[at:end])+words.Fold(text[end:]) == words.Fold(text) {
				return true
			}
			if len(got) > len(want) {
				break
			}
		}
	}
	return false
}

func isRun(word string) bool {
	r, _ := utf8.DecodeRuneInString(word)
	return r == 'ー' || unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai)
}

// query makes a query.
func (w *searchWorld) query() naiveQuery {
	var q naiveQuery
	var fits []func(string) bool
	switch w.IntN(8) {
	case 0:
		word := w.word()
		q.Regexp = regexp.QuoteMeta(word) + []string{"", ".", "[a-zа-я]*$", `\s`}[w.IntN(4)]
		re := regexp.MustCompile(q.Regexp)
		q.fits = re.MatchString
	default:
		q.Ranked = w.IntN(4) == 0
		for range 1 + w.IntN(3) {
			word := strings.Trim(w.word(), "，")
			switch {
			case strings.Contains(word, "，"):
				continue
			case isRun(word) && q.Ranked:
				var clusters []string
				for _, r := range word {
					if unicode.IsMark(r) {
						clusters[len(clusters)-1] += string(r)
						continue
					}
					clusters = append(clusters, string(r))
				}
				for i := range max(len(clusters)-1, 1) {
					pair := strings.Join(clusters[i:min(i+2, len(clusters))], "")
					fits = append(fits, func(text string) bool { return standsIn(text, pair, false, false) })
				}
			case isRun(word):
				fits = append(fits, func(text string) bool { return standsIn(text, word, false, false) })
			case w.IntN(5) == 0 && utf8.RuneCountInString(word) > 2:
				runes := []rune(word)
				word = strings.TrimRightFunc(string(runes[:len(runes)-1]), unicode.IsPunct)
				piece := word
				fits = append(fits, func(text string) bool { return standsIn(text, piece, true, false) })
				word += "*"
			default:
				fits = append(fits, func(text string) bool { return standsIn(text, word, true, true) })
			}
			if w.IntN(4) == 0 {
				word = strings.ToUpper(word)
				if words.Fold(word) != words.Fold(strings.ToLower(word)) || strings.Contains(word, "SS") {
					word = "the"
					fits[len(fits)-1] = func(text string) bool { return standsIn(text, "the", true, true) }
				}
			}
			q.Text += word + " "
		}
		if w.IntN(5) == 0 {
			a, b := w.word(), w.word()
			q.Text += `"` + a + " " + b + `"`
			fits = append(fits, func(text string) bool { return standsIn(text, a+" "+b, true, true) })
		}
		if len(fits) == 0 {
			q.Text, fits = "the", append(fits, func(text string) bool { return standsIn(text, "the", true, true) })
		}
		q.fits = func(text string) bool {
			for _, f := range fits {
				if f(text) == q.Ranked {
					return q.Ranked
				}
			}
			return !q.Ranked
		}
	}
	switch w.IntN(6) {
	case 0:
		q.Role = []string{"user", "assistant", "tool"}[w.IntN(3)]
	case 1:
		q.Block = []string{"text", "tool_use", "tool_result"}[w.IntN(3)]
	case 2:
		q.Tool = []string{"read", "bash"}[w.IntN(2)]
	}
	q.Limit = 1 << 30
	return q
}

// naive returns the matches among the entries that certainly exist or, if all is
// set, among all that may exist.
func (w *searchWorld) naive(q naiveQuery, all bool) map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := map[string]string{}
	for _, d := range w.docs {
		if !all && !d.acked || d.tool == recalltool.Search || q.Tool != "" && q.Tool != d.tool ||
			q.Role != "" && q.Role != d.role || q.Block != "" && q.Block != d.kind || !q.fits(d.text) {
			continue
		}
		found[d.ref.ID+" "+d.id] = d.text
	}
	return found
}

// searchSessions makes sessions of two agents for the tests below.
func searchSessions(t testing.TB, st *session.Store) (all []*session.Session) {
	for n := range 6 {
		all = append(all, storetest.Load(t, st, session.Key{Agent: []string{"a", "b"}[n%2], Channel: "c", Peer: fmt.Sprint(n)}))
	}
	return all
}

// newSearchWorld fills the sessions of a store.
func newSearchWorld(t *testing.T, st *session.Store, seed uint64) (w *searchWorld, all []*session.Session) {
	w = &searchWorld{Rand: rand.New(rand.NewPCG(7, seed))}
	all = searchSessions(t, st)
	for range 300 {
		w.write(t, all[w.IntN(len(all))])
	}
	return w, all
}

// compare compares the hits of the n-th query with the expected ones.
func (w *searchWorld) compare(t *testing.T, st *session.Store, n int) {
	t.Helper()
	other := &searchWorld{Rand: rand.New(rand.NewPCG(uint64(n), 5)), docs: w.docs}
	compareSearch(t, st, other, other.query())
}

// searchQueries is how many queries each of four tests makes: 10,000 in all with
// -soak=long.
func searchQueries() int { return storetest.Extent(*storetest.Soak, 16, 250, 2_500) }

// A search finds the same as a naive search, in every script and every spelling
// of a line; a torn last line changes nothing.
func TestSearchNaive(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, &session.Options{Sync: session.SyncNever})
	defer storetest.Close(t, st)
	w, all := newSearchWorld(t, st, 5)
	for n := range searchQueries() {
		w.compare(t, st, n)
	}
	f, err := os.OpenFile(filepath.Join(dir, "agents", "a", "sessions", all[0].Ref().ID+".jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"type":"user","id":"torn","ts":"2026-01-01T00:00:00Z","content":"the user`)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	for n := range 20 {
		w.compare(t, st, 100_000+n)
	}
}

// The same in memory.
func TestSearchNaiveMemory(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	w, _ := newSearchWorld(t, st, 6)
	for n := range searchQueries() {
		w.compare(t, st, 200_000+n)
	}
}

// mostWritten limits the writes during the searches: naive searches are slow.
const mostWritten = 500

// During writes a search finds all lines that existed when it began, and only
// existing lines.
func TestSearchNaiveBeside(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), &session.Options{Sync: session.SyncNever})
	defer storetest.Close(t, st)
	w, all := newSearchWorld(t, st, 7)
	queries := searchQueries()
	turn, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for range turn {
			w.write(t, all[w.IntN(len(all))])
		}
	}()
	other := &searchWorld{Rand: rand.New(rand.NewPCG(1, 9))}
	for n := range queries {
		if n%max(queries/mostWritten, 1) == 0 {
			turn <- struct{}{} // write during the search
		}
		compareBeside(t, st, w, other.query())
	}
	close(turn)
	<-done
}

// searchAll returns the hits of a search of the store.
func searchAll(t *testing.T, st *session.Store, q search.Query) map[string]search.Hit {
	t.Helper()
	got := map[string]search.Hit{}
	for hit, err := range search.Store(t.Context(), st, q) {
		require.NoError(t, err, "%+v", q)
		require.True(t, utf8.ValidString(hit.Excerpt))
		require.Less(t, hit.Start, hit.End)
		require.LessOrEqual(t, hit.End, len(hit.Excerpt))
		id := hit.Session.ID + " " + hit.Entry
		require.NotContains(t, got, id)
		got[id] = hit
	}
	return got
}

func compareSearch(t *testing.T, st *session.Store, w *searchWorld, q naiveQuery) {
	t.Helper()
	want, got := w.naive(q, false), searchAll(t, st, q.Query)
	for id, text := range want {
		require.Contains(t, got, id, "%+v does not find %q", q.Query, text)
		require.Contains(t, text, got[id].Excerpt)
	}
	for id, hit := range got {
		require.Contains(t, want, id, "%+v finds %q", q.Query, hit.Excerpt)
	}
}

// compareBeside is compare while a writer runs.
func compareBeside(t *testing.T, st *session.Store, w *searchWorld, q naiveQuery) {
	t.Helper()
	before := w.naive(q, false)
	got := searchAll(t, st, q.Query)
	// Documents get their IDs when they are acked: wait for the present ones.
	w.mu.Lock()
	docs := len(w.docs)
	w.mu.Unlock()
	require.Eventually(t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, d := range w.docs[:docs] {
			if !d.acked {
				return false
			}
		}
		return true
	}, time.Minute, time.Millisecond)
	after := w.naive(q, true)
	for id, text := range before {
		require.Contains(t, got, id, "%+v does not find %q", q.Query, text)
	}
	for id, hit := range got {
		require.Contains(t, after, id, "%+v finds %q", q.Query, hit.Excerpt)
	}
}
