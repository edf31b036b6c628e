package memory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// shelf is a Storage in memory.
type shelf struct {
	mu    sync.Mutex
	files map[string][]byte
	reads int
}

func newShelf() *shelf { return &shelf{files: map[string][]byte{}} }

func (s *shelf) List(_ context.Context, folder string) (list []File, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, data := range s.files {
		if strings.HasPrefix(name, folder+"/") {
			list = append(list, File{name, fmt.Sprintf("%p %d", data, len(data))})
		}
	}
	slices.SortFunc(list, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

func (s *shelf) Read(_ context.Context, name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	data, ok := s.files[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	if strings.HasPrefix(string(data), "broken") {
		return nil, fmt.Errorf("%s: broken", name)
	}
	return data, nil
}

func (s *shelf) Create(ctx context.Context, name string, data []byte) error {
	if _, err := s.Read(ctx, name); err == nil {
		return fs.ErrExist
	}
	return s.Write(ctx, name, data)
}

func (s *shelf) Write(_ context.Context, name string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name] = data
	return nil
}

func (s *shelf) Remove(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for file := range s.files {
		if file == name || strings.HasPrefix(file, name+"/") {
			delete(s.files, file)
		}
	}
	return nil
}

func (s *shelf) Lock(context.Context, string) (func(), error) { return func() {}, nil }

// put stores a memory.
func (s *shelf) put(scope Scope, c Category, name string, t Text) {
	s.files[path.Join(scope.folder(c, false), name+extension)] = Memory{ID: name, Text: t, Updated: time.Unix(1_700_000_000, 0)}.format()
}

var ana = Scope{Agent: "main", Owner: "ana"}

// sought are memories in several scripts, with queries.
var sought = []struct{ text, query string }{
	{"Rex is the dog of Ana's sister, who lives in Porto", "what is the name of the dog of my sister?"},
	{"安娜的狗叫雷克斯，住在波尔图", "安娜的狗叫什么名字"},
	{"アナの犬の名前はレックスです", "アナの犬の名前は何ですか"},
	{"Собаку Анны зовут Рекс, она живёт в Порту", "как зовут собаку Анны?"},
	{"كلب آنا اسمه ريكس ويعيش في بورتو", "ما اسم كلب آنا؟"},
	{"आना के कुत्ते का नाम रेक्स है", "आना के कुत्ते का नाम क्या है"},
	{"안나의 강아지 이름은 렉스", "안나의 강아지 이름이 뭐야"},
	{"สุนัขของแอนนาชื่อเร็กซ์", "สุนัขของแอนนาชื่ออะไร"},
}

// noise are the words of other memories: all words of each query except one.
var noise = [][]string{
	strings.Fields("the name of what is my project likes tea in Lisbon sister works at a bank and prefers short answers with examples about her plan"),
	strings.Split("名字 什么 喜欢 茶 项目 计划 在 里斯本 银行 工作 简短 回答 叫 住在", " "),
	strings.Split("名前 は 何 です か お茶 が 好き 計画 銀行 仕事 短い 答え", " "),
	strings.Fields("как зовут она живёт в любит чай работает банк план короткие ответы проект Анны"),
	strings.Fields("ما اسم تحب الشاي تعمل في بنك خطة مشروع إجابات قصيرة آنا"),
	strings.Fields("का नाम क्या है चाय पसंद बैंक काम योजना छोटे उत्तर"),
	strings.Fields("이름은 뭐야 차를 좋아해 은행 일 계획 짧은 대답"),
	strings.Split("ชื่อ อะไร ชอบ ชา ทำงาน ธนาคาร แผน คำตอบ สั้น", " "),
}

// madeUp returns a word that is unlikely in other memories, in the script of
// another word.
func madeUp(rng *rand.Rand, like string) string {
	letters := []rune(like)
	for len(letters) < 4 {
		letters = append(letters, letters...)
	}
	for i := range letters {
		letters[i] += rune(rng.IntN(3))
	}
	return string(letters)
}

// fill puts n memories into a storage, the sought ones among them.
func fill(put func(c Category, name string, t Text), n int) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range n - len(sought) {
		words := noise[i%len(noise)]
		var said []string
		for range 4 + rng.IntN(6) {
			said = append(said, words[rng.IntN(len(words))], madeUp(rng, words[rng.IntN(len(words))]))
		}
		sep := " "
		if k := i % len(noise); k == 1 || k == 2 || k == 7 {
			sep = ""
		}
		put(categories[1+i%5], fmt.Sprintf("m%05d", i), Text{Abstract: strings.Join(said, sep), Content: strings.Join(said[:4], sep)})
	}
	for i, p := range sought {
		put(categories[1+i%5], fmt.Sprintf("sought-%d", i), Text{Abstract: p.text})
	}
}

// A search finds each memory among thousands of others, in every script, and the
// second search reads none of them again.
func TestSearchMany(t *testing.T) {
	s, n := newShelf(), storetest.Extent(*storetest.Soak, 3_000, 10_000, 10_000)
	fill(func(c Category, name string, text Text) { s.put(ana, c, name, text) }, n)
	m, err := Open(s, nil)
	require.NoError(t, err)
	for i, p := range sought {
		hits, err := m.Search(t.Context(), p.query, &SearchOptions{Scope: ana})
		require.NoError(t, err)
		require.NotEmpty(t, hits, p.query)
		if hits[0].Memory == nil || hits[0].Memory.Abstract != p.text || hits[0].Kind != "memory" || hits[0].Text != p.text {
			t.Errorf("%s: the best of %d is %q", p.query, len(hits), hits[0].Text)
		}
		require.Equal(t, fmt.Sprintf("sought-%d", i), hits[0].Memory.ID)
	}
	require.Equal(t, n, s.reads)
	if hits, err := m.Search(t.Context(), "dog", &SearchOptions{Scope: Scope{Agent: "main", Owner: "ben"}}); err != nil || len(hits) > 0 {
		t.Errorf("of somebody else: %v, %v", hits, err)
	}
}

// A search sees files edited, renamed and removed since the last one, and names
// unreadable ones.
func TestSearchChanges(t *testing.T) {
	dir := t.TempDir()
	m, err := Open(Folder(dir), nil)
	require.NoError(t, err)
	base := filepath.Join(dir, filepath.FromSlash(ana.folder(entities, false)))
	require.NoError(t, os.MkdirAll(base, 0o700))
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(base, name), []byte(text), 0o600))
	}
	found := func(query string) (names []string) {
		hits, err := m.Search(t.Context(), query, &SearchOptions{Scope: ana})
		require.NoError(t, err)
		for _, h := range hits {
			names = append(names, path.Base(h.URI)+" "+h.Text)
		}
		return names
	}
	write("rex.md", "Rex is a dog\n")
	require.Equal(t, []string{"rex.md Rex is a dog"}, found("dog"))
	write("rex.md", "Rex is a very old dog\n")
	require.Equal(t, []string{"rex.md Rex is a very old dog"}, found("dog"))
	require.NoError(t, os.Rename(filepath.Join(base, "rex.md"), filepath.Join(base, "the dog.md")))
	require.Equal(t, []string{"the dog.md Rex is a very old dog"}, found("rex"))
	require.NoError(t, os.Remove(filepath.Join(base, "the dog.md")))
	require.Empty(t, found("dog"))

	s := newShelf()
	s.put(ana, entities, "rex", Text{Abstract: "Rex is a dog"})
	s.files[path.Join(ana.folder(events, false), "bad.md")] = []byte("broken dog")
	m, err = Open(s, nil)
	require.NoError(t, err)
	hits, err := m.Search(t.Context(), "dog", &SearchOptions{Scope: ana})
	require.ErrorContains(t, err, "bad.md")
	require.Len(t, hits, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	hits, err = m.Search(ctx, "dog", &SearchOptions{Scope: ana})
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, hits)
}

// talks returns a store in memory with a session of an owner.
func talks(t *testing.T) (*session.Store, *session.Session) {
	t.Helper()
	st := session.OpenDriver(memdriver.New(nil), nil)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	s, err := st.Create(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: "ana"}, &session.CreateOptions{Owner: "ana"})
	require.NoError(t, err)
	return st, s
}

func say(t *testing.T, s *session.Session, items ...transcript.Item) {
	t.Helper()
	_, err := s.Append(t.Context(), items...)
	require.NoError(t, err)
}

// Memories, chapters, uses and messages share one order.
func TestSearchSession(t *testing.T) {
	_, s := talks(t)
	files := newShelf()
	files.put(ana, preferences, "tea", Text{Abstract: "Prefers green tea from Porto", Content: "Never with milk."})
	files.put(ana, events, "move", Text{Abstract: "Moved to Lisbon in May"})
	m, err := Open(files, nil)
	require.NoError(t, err)
	say(t, s, transcript.UserText("Which tea is sold in Porto?"), transcript.AssistantText("Gorreana is sold there."))
	require.NoError(t, RecordUse(t.Context(), s, Use{URI: "viking://resources/tea/shops/"}, Use{URI: "viking://user/memories/preferences/tea.md"},
		Use{Type: "skill", URI: "viking://skills/look-up/", Input: "tea shops", Success: true}))
	done, err := Commit(t.Context(), s, nil)
	require.NoError(t, err)
	say(t, s, transcript.UserText("Gone: tea"))
	require.NoError(t, s.Rewind(t.Context(), done.Entry))
	say(t, s, transcript.UserText("tea in porto"))

	hits, err := m.Search(t.Context(), "tea in porto", &SearchOptions{Scope: ana, Sessions: []*session.Session{s}})
	require.NoError(t, err)
	kinds := map[string]Hit{}
	for i, h := range hits {
		if i > 0 {
			require.LessOrEqual(t, h.Score, hits[i-1].Score)
		}
		require.NotContains(t, h.Text, "Gone")
		require.NotEqual(t, "tea in porto", h.Text)
		if _, ok := kinds[h.Kind]; !ok {
			kinds[h.Kind] = h
		}
	}
	require.True(t, kinds["memory"].Used)
	require.Equal(t, "Prefers green tea from Porto\n\nNever with milk.", kinds["memory"].Text)
	require.Equal(t, "chapter_001", kinds["chapter"].Chapter)
	require.Equal(t, "chapter:main/"+s.Ref().ID+"/chapter_001", kinds["chapter"].URI)
	require.Equal(t, "viking://resources/tea/shops/", kinds["context"].URI)
	require.Equal(t, "viking://skills/look-up/", kinds["skill"].URI)
	require.Contains(t, kinds["entry"].Text, "Which tea is sold")
	require.Equal(t, s.Ref().Agent+"/"+s.Ref().ID+"#"+kinds["entry"].Entry, kinds["entry"].URI)

	alone, err := m.Search(t.Context(), "tea", &SearchOptions{Sessions: []*session.Session{s}})
	require.NoError(t, err)
	require.False(t, slices.ContainsFunc(alone, func(h Hit) bool { return h.Memory != nil }))
	for query, opts := range map[string]*SearchOptions{"tea": nil, " ? ": {Scope: ana}, "milk": {Scope: ana, Limit: -1}} {
		hits, err := m.Search(t.Context(), query, opts)
		if err == nil || hits != nil || !errors.Is(err, search.ErrQuery) && !errors.Is(err, errOwner) {
			t.Errorf("%q: %v, %v", query, hits, err)
		}
	}
}

// Hits stop at the limit, and their texts at the tokens; of long texts the first
// line and the matching part are shown.
func TestSearchBudget(t *testing.T) {
	files := newShelf()
	long := strings.Repeat("Other things are said here, too. ", 80)
	files.put(ana, cases, "long", Text{Abstract: "A long story", Overview: "About much.", Content: long + "The needle is blue. " + long})
	for i := range 30 {
		files.put(ana, entities, fmt.Sprintf("n%02d", i), Text{Abstract: fmt.Sprintf("Needle %d is red", i), Content: "It is one of many needles."})
	}
	m, err := Open(files, nil)
	require.NoError(t, err)
	hits, err := m.Search(t.Context(), "blue", &SearchOptions{Scope: ana})
	require.NoError(t, err)
	require.Len(t, hits, 1)
	require.Less(t, len(hits[0].Text), 500)
	require.True(t, strings.HasPrefix(hits[0].Text, "A long story\n\n"))
	require.Contains(t, hits[0].Text, "The needle is blue.")
	for _, budget := range []int{1, 20, 50, 100, 1000} {
		hits, err := m.Search(t.Context(), "needle", &SearchOptions{Scope: ana, Tokens: budget, Limit: 25})
		require.NoError(t, err)
		require.LessOrEqual(t, len(hits), 25)
		total := 0
		for _, h := range hits {
			total += tokens.Estimator{}.Count("", nil, []transcript.Message{transcript.UserText(h.Text)})
		}
		require.LessOrEqual(t, total, budget)
		require.Equal(t, budget == 1, len(hits) == 0, budget)
	}
}

// Even if not all hits fit into memory, the best is found.
func TestSearchHeld(t *testing.T) {
	f, err := newFinding("blue needle")
	require.NoError(t, err)
	hay := strings.Repeat("hay and one needle among it ", 8_000)
	for i := range 400 {
		mem := &Memory{ID: fmt.Sprint(i), URI: fmt.Sprint(i), Text: Text{Abstract: "hay", Content: hay}}
		if i == 7 {
			mem.Abstract = "the needle that is blue"
		}
		f.memory(mem)
		require.LessOrEqual(t, f.held, maxHeld)
	}
	require.Less(t, len(f.found), 300)
	f.score()
	require.Equal(t, "7", f.found[0].Memory.ID)
}

// Any query in any text is answered within the budget, and never fails.
func FuzzSearch(f *testing.F) {
	f.Add("dog Rex", "Rex is a dog", "and \"old\"", 20)
	f.Add(`"a phrase`, "一只狗", strings.Repeat("狗", 2000), 300)
	f.Fuzz(func(t *testing.T, query, abstract, content string, budget int) {
		files := newShelf()
		files.put(ana, entities, "x", Text{Abstract: abstract, Content: content}.normal())
		m, err := Open(files, nil)
		require.NoError(t, err)
		hits, err := m.Search(t.Context(), query, &SearchOptions{Scope: ana, Tokens: budget})
		if err != nil && !errors.Is(err, search.ErrQuery) {
			t.Fatal(err)
		}
		for _, h := range hits {
			if n := (tokens.Estimator{}).Count("", nil, []transcript.Message{transcript.UserText(h.Text)}); budget > 0 && n > budget {
				t.Errorf("%d tokens of %d: %q", n, budget, h.Text)
			}
		}
	})
}

// BenchmarkSearch searches ten thousand memories in a folder, for the first time and
// again. The latter is compared with only reading these files.
func BenchmarkSearch(b *testing.B) {
	dir := b.TempDir()
	bytes := 0
	fill(func(c Category, name string, t Text) {
		folder := filepath.Join(dir, filepath.FromSlash(ana.folder(c, false)))
		require.NoError(b, os.MkdirAll(folder, 0o700))
		data := Memory{ID: name, Text: t}.format()
		bytes += len(data)
		require.NoError(b, os.WriteFile(filepath.Join(folder, name+extension), data, 0o600))
	}, 10_000)
	search := func(b *testing.B, m *Store, i int) {
		p := sought[i%len(sought)]
		hits, err := m.Search(b.Context(), p.query, &SearchOptions{Scope: ana})
		if err != nil || len(hits) == 0 || hits[0].Memory.Abstract != p.text {
			b.Fatal(hits, err)
		}
	}
	open := func() *Store {
		m, err := Open(Folder(dir), nil)
		require.NoError(b, err)
		return m
	}
	b.Run("first", func(b *testing.B) {
		b.SetBytes(int64(bytes))
		for i := 0; b.Loop(); i++ {
			search(b, open(), i)
		}
	})
	read := func(b *testing.B) {
		require.NoError(b, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				_, err = os.ReadFile(name)
			}
			return err
		}))
	}
	b.Run("again", func(b *testing.B) {
		b.SetBytes(int64(bytes))
		m := open()
		search(b, m, 0)
		var searches, reads []time.Duration
		for i := 0; b.Loop(); i++ {
			start := time.Now()
			search(b, m, i)
			searches = append(searches, time.Since(start))
			start = time.Now()
			read(b)
			reads = append(reads, time.Since(start))
		}
		slices.Sort(searches)
		slices.Sort(reads)
		half := len(reads) / 2
		b.ReportMetric(float64(searches[half].Microseconds())/1000, "ms/search-p50")
		b.ReportMetric(float64(searches[half])/float64(reads[half]), "searches/read-p50")
	})
}

// Several searches run during writes, and find only whole memories.
func TestSearchBesideWriters(t *testing.T) {
	m, err := Open(Folder(t.TempDir()), nil)
	require.NoError(t, err)
	name := func(i int) string { return path.Join(ana.folder(entities, false), fmt.Sprintf("m%d.md", i)) }
	text := func(n int) []byte {
		return Memory{ID: "x", Text: Text{Abstract: fmt.Sprintf("dog %d", n), Content: strings.Repeat(fmt.Sprintf("dog %d ", n), 20)}}.format()
	}
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for w := range 2 {
		writers.Go(func() {
			for i := range 20 {
				if err := m.files.Write(t.Context(), name(i%4), text(w*100+i)); err != nil {
					t.Error(err)
				}
				if i%5 == 4 {
					if err := m.files.Remove(t.Context(), name((i+w)%4)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for range 4 {
		readers.Go(func() {
			for {
				hits, err := m.Search(t.Context(), "dog", &SearchOptions{Scope: ana})
				if err != nil {
					t.Error(err)
				}
				for _, h := range hits {
					if n := strings.Count(h.Memory.Content, h.Memory.Abstract); n != 20 {
						t.Errorf("%q: %d", h.Memory.Abstract, n)
					}
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	for i := range 4 { // the last search finds the files
		require.NoError(t, m.files.Write(t.Context(), name(i), text(1000+i)))
	}
	hits, err := m.Search(t.Context(), "dog", &SearchOptions{Scope: ana})
	require.NoError(t, err)
	require.Len(t, hits, 4)
	for _, h := range hits {
		require.Contains(t, h.Memory.Abstract, "dog 100")
	}
}
