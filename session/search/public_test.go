package search_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/transcript"
)

// The data is not in this repository. BEAM has a folder for each conversation, with
// chat.json and probing_questions/probing_questions.json; LoCoMo is one file.
//
//	go test ./session/search -run TestPublic -v -beam DIR/chats/100K -locomo DIR/data/locomo10.json
var (
	beamDir    = flag.String("beam", "", "folder with conversations of BEAM, for TestPublicBEAM")
	locomoFile = flag.String("locomo", "", "file of LoCoMo, for TestPublicLoCoMo")
)

// TestPublicBEAM prints which share of the words in BEAM's answers is carried, or
// found by one search.
func TestPublicBEAM(t *testing.T) {
	if *beamDir == "" {
		t.Skip("needs the data of BEAM: name the folder with -beam")
	}
	table, talks, n := keptTable{}, 0, 0
	require.NoError(t, filepath.WalkDir(*beamDir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Base(path) == "chat.json" {
			talks++
			n += table.ask(t, readBEAM(t, filepath.Dir(path)), 32_000)
		}
		return err
	}))
	table.log(t, fmt.Sprintf("BEAM, 32k, %d conversations, %d compactions", talks, n))
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, into), path)
}

func readBEAM(t *testing.T, dir string) (talk longTalk) {
	var batches []struct {
		Turns [][]struct{ Role, Content string }
	}
	readJSON(t, filepath.Join(dir, "chat.json"), &batches)
	for _, b := range batches {
		for _, turn := range b.Turns {
			for _, m := range turn {
				text, _, _ := strings.Cut(m.Content, "->->") // the place in the plan
				talk.add(m.Role == "user", text)
			}
		}
	}
	var kinds map[string][]struct {
		Question, Answer string
		IdealAnswer      string `json:"ideal_answer"`
		IdealSummary     string `json:"ideal_summary"`
		Instruction      string `json:"instruction_being_tested"`
		Preference       string `json:"preference_being_tested"`
	}
	readJSON(t, filepath.Join(dir, "probing_questions", "probing_questions.json"), &kinds)
	common := talk.common()
	for kind, list := range kinds {
		for _, q := range list {
			answer := strings.Join([]string{q.Answer, q.IdealAnswer, q.IdealSummary, q.Instruction, q.Preference}, " ")
			talk.probes = append(talk.probes, probe{kind, q.Question, common.needed(q.Question, answer)})
		}
	}
	return talk
}

// TestPublicLoCoMo does the same for LoCoMo. One of the two people is the user.
func TestPublicLoCoMo(t *testing.T) {
	if *locomoFile == "" {
		t.Skip("needs the data of LoCoMo: name the file with -locomo")
	}
	talks := readLoCoMo(t, *locomoFile)
	table, n := keptTable{}, 0
	for _, talk := range talks {
		n += table.ask(t, talk, 8_000)
	}
	table.log(t, fmt.Sprintf("LoCoMo, 8k, %d conversations, %d compactions", len(talks), n))
}

func readLoCoMo(t *testing.T, path string) (talks []longTalk) {
	var samples []struct {
		Conversation map[string]json.RawMessage
		QA           []struct {
			Question string
			Answer   any
			Category int
		}
	}
	readJSON(t, path, &samples)
	kinds := []string{"", "several sessions", "temporal", "open domain", "one fact", "unanswerable"}
	for _, sample := range samples {
		var talk longTalk
		for n := 1; sample.Conversation[fmt.Sprint("session_", n)] != nil; n++ {
			var user, day string
			var said []struct{ Speaker, Text string }
			require.NoError(t, json.Unmarshal(sample.Conversation["speaker_a"], &user))
			require.NoError(t, json.Unmarshal(sample.Conversation[fmt.Sprintf("session_%d_date_time", n)], &day))
			require.NoError(t, json.Unmarshal(sample.Conversation[fmt.Sprint("session_", n)], &said))
			for i, m := range said {
				text := m.Speaker + ": " + m.Text
				if i == 0 {
					text = "It is " + day + ". " + text
				}
				talk.add(m.Speaker == user, text)
			}
		}
		common := talk.common()
		for _, q := range sample.QA {
			p := probe{kind: kinds[min(max(q.Category, 0), len(kinds)-1)], text: q.Question}
			if q.Answer != nil {
				p.words = common.needed(q.Question, fmt.Sprint(q.Answer))
			}
			talk.probes = append(talk.probes, p)
		}
		talks = append(talks, talk)
	}
	return talks
}

func (l *longTalk) add(user bool, text string) {
	if text = strings.TrimSpace(text); text == "" {
		return
	}
	m := transcript.AssistantText(text)
	if user {
		m = transcript.UserText(text)
	}
	l.messages = append(l.messages, m)
}

// spread holds, for each word, the share of the texts that have it.
type spread map[string]float64

func (l *longTalk) common() spread {
	s := spread{}
	for _, m := range l.messages {
		seen := map[string]bool{}
		for _, w := range words.Terms(m.Text()) {
			if !seen[w] {
				seen[w] = true
				s[w] += 1 / float64(len(l.messages))
			}
		}
	}
	return s
}

// needed returns the words of an answer that the question lacks and the conversation
// contains, in at most a twentieth of its texts. A word has four letters or a digit.
func (s spread) needed(question, answer string) (list []string) {
	seen := map[string]bool{}
	for _, w := range words.Terms(question) {
		seen[w] = true
	}
	for _, w := range words.Terms(answer) {
		if !seen[w] && s[w] > 0 && s[w] < .05 && (len([]rune(w)) > 3 || strings.ContainsAny(w, "0123456789")) {
			list = append(list, w)
		}
		seen[w] = true
	}
	return list
}

// The readers of both formats, on small files of the same form.
func TestPublicReaders(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	filler := strings.Repeat(`,{"role":"user","content":"And now?"}`, 25)
	write("1/chat.json", `[{"batch_number":1,"turns":[[{"role":"user","id":0,"content":"My sprint ends on March 29. ->-> 1,1"},{"role":"assistant","content":"Noted."}`+filler+`]]}]`)
	write("1/probing_questions/probing_questions.json", `{"abstention":[{"question":"Who?","ideal_response":"Unknown sprint."}],"information_extraction":[{"question":"When does my sprint end?","answer":"It ends on March 29."}]}`)
	beam := readBEAM(t, filepath.Join(dir, "1"))
	require.Equal(t, "My sprint ends on March 29.", beam.messages[0].Text())
	require.Len(t, beam.messages, 27)
	for _, p := range beam.probes {
		if p.kind == "abstention" {
			require.Empty(t, p.words)
		} else {
			require.Equal(t, []string{"ends", "march", "29"}, p.words)
		}
	}
	filler = strings.Repeat(`,{"speaker":"Ben","dia_id":"D1:3","text":"And you?"}`, 25)
	write("locomo.json", `[{"sample_id":"c","qa":[{"question":"When did Ana paint?","answer":2022,"category":2},{"question":"Why?","adversarial_answer":"x","category":5}],
		"conversation":{"speaker_a":"Ana","speaker_b":"Ben","session_1_date_time":"1 pm on 8 May, 2023","session_1":[{"speaker":"Ana","dia_id":"D1:1","text":"I painted in 2022."}`+filler+`]}}]`)
	talks := readLoCoMo(t, filepath.Join(dir, "locomo.json"))
	require.Len(t, talks, 1)
	require.Equal(t, "It is 1 pm on 8 May, 2023. Ana: I painted in 2022.", talks[0].messages[0].Text())
	require.Equal(t, []probe{{"temporal", "When did Ana paint?", []string{"2022"}}, {"unanswerable", "Why?", nil}}, talks[0].probes)
}
