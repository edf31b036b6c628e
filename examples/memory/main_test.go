package main

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/guard/httpclient"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/transcript"
)

// The second conversation uses the first one's memories, a second run learns
// nothing anew, and a person's edits of a file count.
func TestMemory(t *testing.T) {
	dir := t.TempDir()
	talk := func() string {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), dir, scripted{}, "scripted", &out))
		return out.String()
	}
	first := talk()
	before, second, _ := strings.Cut(first, "--- a new conversation\nuser: Which city")
	require.NotContains(t, before, "You have told me")
	require.Contains(t, second, "assistant: You have told me: My name is Ana and I live in Porto. I prefer answers in one sentence.\n")
	require.Equal(t, 2, strings.Count(before, "chapter_001: create viking://"))
	require.Contains(t, first, "--- owners/ana/user/memories/preferences/answers.md\nI prefer answers in one sentence.\n")

	again := talk()
	require.Contains(t, again, "assistant: You have told me: My name is Ana")
	require.NotContains(t, again, ": create ")
	files := regexp.MustCompile(`(?s)--- owners.*`)
	require.Equal(t, files.FindString(first), files.FindString(again))

	name := filepath.Join(dir, "memories", "owners", "ana", "user", "memories", "preferences", "answers.md")
	require.NoError(t, os.WriteFile(name, []byte("Answers her in rhymes.\n"), 0o600))
	require.Contains(t, talk(), "You have told me: My name is Ana and I live in Porto. Answers her in rhymes.")
}

// The next run learns from a run that was killed before it learned, and an
// unreadable file stops no conversation.
func TestMemoryInterrupted(t *testing.T) {
	dir := t.TempDir()
	store, err := session.Open(filepath.Join(dir, "sessions"), nil)
	require.NoError(t, err)
	for _, commit := range []bool{true, false} {
		s, err := store.Create(t.Context(), key, &session.CreateOptions{Owner: owner})
		require.NoError(t, err)
		_, err = s.Append(t.Context(), transcript.UserText("I prefer tea."), transcript.AssistantText("Nice to know."))
		require.NoError(t, err)
		if commit {
			_, err = memory.Commit(t.Context(), s, nil)
			require.NoError(t, err)
		}
	}
	require.NoError(t, store.Close())
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), dir, scripted{}, "scripted", &out))
	early, _, _ := strings.Cut(out.String(), "--- a new conversation")
	require.Equal(t, "chapter_001: create viking://user/memories/preferences/answers.md ()\nchapter_001: skip  (every line of it is known)\n", early)

	name := filepath.Join(dir, "memories", "owners", "ana", "user", "memories", "preferences", "large.md")
	require.NoError(t, os.WriteFile(name, make([]byte, 2<<20), 0o600))
	for range 2 {
		out.Reset()
		require.NoError(t, run(t.Context(), dir, scripted{}, "scripted", &out))
		require.Contains(t, out.String(), "assistant: You have told me: My name is Ana")
		require.Contains(t, out.String(), "large.md has 2097152 bytes")
	}
}

// asked is a provider's service that uses the scripted model.
func asked(r guardtest.Request) guardtest.Answer {
	resp, err := scripted{}.Complete(context.Background(), transcript.Request{Messages: []transcript.Message{transcript.UserText(r.UserText())}})
	if err != nil {
		return guardtest.Say(err.Error())
	}
	return guardtest.Say(resp.Message.Text())
}

// A service gets no request that it would refuse.
func TestMemoryProvider(t *testing.T) {
	service := &guardtest.Model{Answer: asked}
	client := httpclient.Messages("HTTP://offline.invalid", "key")
	client.HTTP = &http.Client{Transport: service}
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), t.TempDir(), client, "m", &out))
	require.Contains(t, out.String(), "You have told me: My name is Ana")
	require.Zero(t, service.Stats().Invalid)
	_, err := client.Complete(t.Context(), transcript.Request{Model: "m", Messages: []transcript.Message{transcript.AssistantText("hi")}, MaxOutput: -1})
	require.Error(t, err)
}
