package tokens_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

var est tokens.Estimator

// Real counts of o200k for texts of each kind.
func TestScripts(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		low, high  float64 // characters per token
	}{
		{"English", "The quick brown fox jumps over the lazy dog, and then it goes home.", 3.5, 5.5},
		{"Go", "func (s *Store) Load(ctx context.Context, key Key) (*Session, error) {\n\treturn nil, nil\n}\n", 2.5, 4},
		{"numbers", "12345678", 2.5, 3},
		{"Chinese", "对话记录是只追加的文件，每行一个对象。", 1, 2},
		{"Japanese", "会話は追記だけのファイルに保存されます。", 1, 2},
		{"Korean", "대화는 추가만 되는 파일에 저장됩니다.", 1.2, 2.4},
		{"Russian", "Разговоры хранятся в файлах, которые только дополняются.", 2.2, 4},
		{"Greek", "Οι συνομιλίες αποθηκεύονται σε αρχεία.", 2, 3.5},
		{"Arabic", "تحفظ المحادثات في ملفات", 2, 3.5},
		{"Hebrew", "השיחות נשמרות בקבצים", 1.7, 3.2},
		{"Hindi", "बातचीत फ़ाइलों में सहेजी जाती है", 2, 3.5},
		{"Thai", "บทสนทนาถูกเก็บไว้ในไฟล์", 1.8, 3},
		{"Georgian", "საუბრები ინახება ფაილებში", 2, 3.5},
		{"German", "Gespräche überdauern Abstürze und volle Festplatten.", 3, 5},
		{"emoji", "😀🎉🚀👍", 0.3, 0.9},
	} {
		n := est.Text(tt.text)
		ratio := float64(utf8.RuneCountInString(tt.text)) / float64(n)
		if ratio < tt.low || ratio > tt.high {
			t.Errorf("%s: %d tokens, %.2f characters a token, want %.1f to %.1f", tt.name, n, ratio, tt.low, tt.high)
		}
	}
	for text, want := range map[string]int{
		"": 0, "a": 1, " ": 1, "12": 1, "1234": 2, "a 1": 3, "don't": 1, "\n\n\n": 1, "x;\n": 2,
		"\tif (on) {\n": 5, "\U0010ffff": 4,
	} {
		if got := est.Text(text); got != want {
			t.Errorf("Text(%q) = %d, want %d", text, got, want)
		}
	}
}

// Texts unlike the corpus, with the counts of o200k: the estimates are within
// 30 %.
func TestUnusualTexts(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       int
	}{
		{"names in capitals", "USER_ACCOUNT_TOKEN\nDATABASE_SESSION_PATH\nSERVER_CONFIG_VALUE\nREQUEST_HANDLER_INDEX\n", 16},
		{"environment", "DATABASE_URL=postgres\nSESSION_TOKEN=none\nMAX_RETRIES=5\nLOG_LEVEL=debug\n", 21},
		{"one letter", strings.Repeat("a", 4000), 500},
		{"zeroes", strings.Repeat("\x00", 500), 250},
	} {
		if got := est.Text(tt.text); math.Abs(float64(got-tt.want)) > .3*float64(tt.want) {
			t.Errorf("%s: %d tokens, want about %d", tt.name, got, tt.want)
		}
	}
}

// No character is free, and none costs more tokens than bytes.
func TestCharacters(t *testing.T) {
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if n := est.Text(string(r)); n < 1 || n > 4 {
			t.Fatalf("%U is %d tokens", r, n)
		}
	}
}

func message(blocks ...transcript.Block) []transcript.Message {
	return []transcript.Message{{Role: transcript.RoleUser, Content: blocks}}
}

func TestCount(t *testing.T) {
	text := strings.Repeat("word ", 100)
	n := est.Text(text)
	rawBlock, err := transcript.UnmarshalBlock([]byte(`{"type":"odd","text":"` + text + `"}`))
	require.NoError(t, err)
	base64 := func(size int) transcript.Source {
		return transcript.Source{Type: "base64", MediaType: "application/pdf", Data: strings.Repeat("A", size)}
	}
	for _, tt := range []struct {
		name   string
		system string
		tools  []transcript.Tool
		blocks []transcript.Block
		want   int // within 1 % and 12 tokens
	}{
		{"nothing", "", nil, nil, 4},
		{"system", text, nil, nil, n + 8},
		{"text", "", nil, []transcript.Block{transcript.TextBlock{Text: text}}, n + 4},
		{"thinking", "", nil, []transcript.Block{transcript.ThinkingBlock{Thinking: text, Signature: text}}, n + 7},
		{"redacted", "", nil, []transcript.Block{transcript.RedactedThinkingBlock{Data: text}}, 125 + 7},
		{"call", "", nil, []transcript.Block{transcript.ToolCallBlock{ID: "1", Name: text, Input: json.RawMessage(`"` + text + `"`)}}, 2*n + 8},
		{"result", "", nil, []transcript.Block{transcript.ToolResultBlock{CallID: "1", Content: []transcript.Block{transcript.TextBlock{Text: text}}}}, n + 8},
		{"image", "", nil, []transcript.Block{transcript.ImageBlock{Source: base64(1 << 20)}}, 1207},
		{"image in a result", "", nil, []transcript.Block{transcript.ToolResultBlock{Content: []transcript.Block{transcript.ImageBlock{}}}}, 1210},
		{"small document", "", nil, []transcript.Block{transcript.DocumentBlock{Source: base64(400)}}, 1507},
		{"large document", "", nil, []transcript.Block{transcript.DocumentBlock{Source: base64(1 << 20)}}, 1<<20*3/4/32 + 7},
		{"linked document", "", nil, []transcript.Block{transcript.DocumentBlock{Source: transcript.Source{Type: "url", URL: "http://x/"}, Title: text}}, n + 1507},
		{"text document", "", nil, []transcript.Block{transcript.DocumentBlock{Source: transcript.Source{Type: "text", Data: text}}}, n + 7},
		{"context", "", nil, []transcript.Block{transcript.ContextBlock{URI: "viking://x", Abstract: text}}, n + 12},
		{"unknown", "", nil, []transcript.Block{rawBlock}, n + 22},
		{"tool", "", []transcript.Tool{{Name: "f", Description: text, InputSchema: json.RawMessage(`"` + text + `"`)}}, nil, 2*n + 20},
	} {
		got := est.Count(tt.system, tt.tools, message(tt.blocks...))
		if d := math.Abs(float64(got - tt.want)); d > 12+float64(tt.want)/100 {
			t.Errorf("%s: %d tokens, want about %d", tt.name, got, tt.want)
		}
	}
	require.Zero(t, est.Count("", nil, nil))
}

func TestCountAdds(t *testing.T) {
	msgs := conversation(20)
	whole, sum := est.Count("system", nil, msgs), est.Count("system", nil, nil)
	for i := range msgs {
		sum += est.Count("", nil, msgs[i:i+1])
		if more := est.Count("system", nil, msgs[:i+1]); more < est.Count("system", nil, msgs[:i]) {
			t.Errorf("message %d lowers the count to %d", i, more)
		}
	}
	if sum < whole || sum > whole+len(msgs)+1 {
		t.Errorf("the parts are %d tokens, the whole %d", sum, whole)
	}
}

func conversation(turns int) []transcript.Message {
	var msgs []transcript.Message
	for i := range turns {
		id := fmt.Sprintf("toolu_%d", i)
		msgs = append(
			msgs, transcript.UserText("Please read a.go, 请看 👍"),
			transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
				transcript.ThinkingBlock{Thinking: "hm"}, transcript.ToolCallBlock{ID: id, Name: "read", Input: json.RawMessage(`{"path":"é.go"}`)},
			}},
			transcript.ToolResult(id, strings.Repeat("package a // комментарий\n", 20)),
		)
	}
	return msgs
}

func TestNoAllocation(t *testing.T) {
	msgs := conversation(20)
	tools := []transcript.Tool{{Name: "read", InputSchema: json.RawMessage(`{"type":"object","title":"é"}`)}}
	require.Zero(t, testing.AllocsPerRun(10, func() { est.Count("system", tools, msgs) }))
	text := strings.Repeat("Hello, 世界 👍 ", 100)
	require.Zero(t, testing.AllocsPerRun(10, func() { est.Text(text) }))
}

// One more letter, of any script, barely changes the count of a long word of
// random letters.
func TestNoiseStays(t *testing.T) {
	const lower = "abcdefghijklmnopqrstuvwxyz"
	for _, word := range []string{random(1, 4000, lower), strings.Repeat("qqxxzzvv", 500)} {
		for _, family := range []tokens.Family{tokens.O200k, tokens.Cl100k, tokens.Gemini, tokens.DeepSeek, tokens.Llama, tokens.Cautious} {
			e := tokens.Estimator{Family: family}
			n := e.Text(word)
			for _, more := range []string{word + "q", word + "é", "é" + word} {
				if got := e.Text(more); got < n || got > n+4 {
					t.Errorf("family %d: %d tokens, %d with a letter more", family, n, got)
				}
			}
		}
	}
}

func ExampleEstimator() {
	var est tokens.Estimator
	fmt.Println(est.Text("Hello, world!"))
	fmt.Println(est.Count("Be brief.", nil, []transcript.Message{transcript.UserText("你好")}))
	// Output:
	// 4
	// 13
}

// random returns words of random characters.
func random(words, length int, alphabet string) string {
	rng := rand.New(rand.NewPCG(8, 8))
	characters := []rune(alphabet)
	var text []rune
	for i := range words {
		if i > 0 {
			text = append(text, ' ')
		}
		for range length {
			text = append(text, characters[rng.IntN(len(characters))])
		}
	}
	return string(text)
}

// span returns the characters from first to last.
func span(first, last rune) string {
	var all []rune
	for r := first; r <= last; r++ {
		all = append(all, r)
	}
	return string(all)
}

// Characters in unusual sequences weigh more than words and code, in every
// vocabulary: the estimates are within a tenth of the counts of o200k.
func TestNoise(t *testing.T) {
	const lower, upper, digits = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
	for _, tt := range []struct {
		name, text string
		want       int
	}{
		{"letters", random(1, 4000, lower), 2065},
		{"words", random(600, 6, lower), 1964},
		{"capitals", random(1, 4000, upper), 2270},
		{"words in capitals", random(600, 6, upper), 2181},
		{"both cases", random(1, 4000, lower+upper), 2438},
		{"letters and digits", random(400, 12, lower+digits), 3212},
		{"base58", random(200, 44, digits+lower+upper), 6056},
		{"hexadecimal", random(200, 40, digits+"abcdef"), 4739},
		{"signs", random(1, 4000, "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"), 2661},
		{"Han", random(1, 2000, span(0x4e00, 0x9fa5)), 3839},
		{"Hangul", random(1, 2000, span(0xac00, 0xd7a3)), 4446},
		{"Braille", random(1, 2000, span(0x2800, 0x28ff)), 5928},
	} {
		if got := est.Text(tt.text); math.Abs(float64(got-tt.want)) > .1*float64(tt.want) {
			t.Errorf("%s: %d tokens, want about %d", tt.name, got, tt.want)
		}
	}
	for _, text := range []string{strings.Repeat("|---", 50) + "|", strings.Repeat("});\n", 50), strings.Repeat("=-", 100)} {
		if got := est.Text(text); got > len(text)/3 {
			t.Errorf("%.20s... of %d bytes is %d tokens", text, len(text), got)
		}
	}
}
