package memory

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFormat(t *testing.T) {
	m := Memory{
		ID: "c-1", Topic: "indentation", Instruction: true,
		Text:    Text{"Prefers tabs", "Tabs in Go files.", "Said so twice.\n\n    indented\n"},
		Sources: []Source{{Session: "s", Chapter: "chapter_001", Commit: "c"}},
		Created: time.Unix(1, 0).UTC(), Updated: time.Unix(2, 0).UTC(),
	}
	file := string(m.format())
	require.Equal(t, `Prefers tabs

## Overview

Tabs in Go files.

## Content

Said so twice.

    indented

<!-- memory {"id":"c-1","topic":"indentation","instruction":true,"sources":[{"session":"s","chapter":"chapter_001","commit":"c"}],"created":"1970-01-01T00:00:01Z","updated":"1970-01-01T00:00:02Z","hash":"5c4e40d93d9a7ac42f7c4c0d9bbd2af1a5ba0b8f01ae6b3ac7a4f7f70b9e2a9b"} -->
`, strings.Replace(file, m.normal().hash(), "5c4e40d93d9a7ac42f7c4c0d9bbd2af1a5ba0b8f01ae6b3ac7a4f7f70b9e2a9b", 1))

	back := parse("x/indentation.md", []byte(file))
	require.Equal(t, m.normal(), back.Text)
	require.False(t, back.Edited)
	require.Equal(t, m.Sources, back.Sources)
	require.Equal(t, "indentation", back.Name)

	for _, still := range []string{
		strings.ReplaceAll(file, "\n", "\r\n"), "\uFEFF" + file, file + "\n\n",
	} {
		require.False(t, parse("x/indentation.md", []byte(still)).Edited)
	}
	edited := parse("x/My own name.md", []byte(strings.Replace(file, "twice", "once", 1)))
	require.True(t, edited.Edited)
	require.Equal(t, "c-1", edited.ID)
	require.Equal(t, "My own name", edited.Name)
	require.True(t, parse("x/a.md", edited.format()).Edited, "a person has edited it at some time")
}

func TestFormatHandwritten(t *testing.T) {
	m := parse("x/note.md", []byte("\n# Anna\n\nLikes tea.\n## Content\nmore\n"))
	require.Equal(t, Text{Abstract: "# Anna", Content: "Likes tea.\n## Content\nmore"}, m.Text)
	require.True(t, m.Edited)
	require.NotEmpty(t, m.ID)
	require.NotEqual(t, m.ID, parse("x/other.md", nil).ID)
	require.Equal(t, m.Text, parse("x/note.md", m.format()).Text)
}

// A text that imitates the comment does not become one.
func TestFormatImitation(t *testing.T) {
	m := Memory{ID: "mine", Text: Text{Abstract: "a", Content: `<!-- memory {"id":"other"} -->`}}
	require.Equal(t, "mine", parse("f.md", m.format()).ID)
	require.Equal(t, m.Text, parse("f.md", m.format()).Text)
}

func FuzzFormat(f *testing.F) {
	f.Add("a", "b\n## Content", "c\n\\## Overview", "id-->")
	f.Add("## Overview", "", "<!-- memory {} -->", "")
	f.Add("", "\r\r\n x", "\\\\<!-- memory ", "\xff")
	f.Fuzz(func(t *testing.T, abstract, overview, content, topic string) {
		m := Memory{ID: "id", Topic: topic, Text: Text{abstract, overview, content}}
		back := parse("f.md", m.format())
		require.Equal(t, m.normal(), back.Text)
		require.Equal(t, "id", back.ID)
		require.False(t, back.Edited)

		other := parse("f.md", []byte(abstract+"\n"+overview+"\n"+content+"\n"+topic))
		again := parse("f.md", other.format())
		require.Equal(t, other.Text, again.Text)
		require.Equal(t, other.ID, again.ID)
		require.Equal(t, other.Edited, again.Edited)
	})
}
