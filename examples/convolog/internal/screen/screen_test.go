package screen_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/examples/convolog/internal/screen"
)

func TestPrintable(t *testing.T) {
	require.Equal(t, "a\n\ufffd[2Jb\ufffdc\ufffd ❤️\u200d🔥 نمی\u200cدانم", screen.Printable("a\n\x1b[2Jb\u200bc\U000e0041 ❤️\u200d🔥 نمی\u200cدانم", "\n"))
	require.Equal(t, "a\ufffdb", screen.Printable("a\nb", ""))
}

// Escaped lines are the same JSON, with nothing unseen in it.
func TestJSON(t *testing.T) {
	text := "pass\u200bword \u009b31m \U000e0041 ❤️\u200d🔥"
	line, err := json.Marshal(text)
	require.NoError(t, err)
	shown := screen.JSON(string(line) + "\n")
	require.Equal(t, `"pass\u200bword \u009b31m \udb40\udc41 ❤️‍🔥"`+"\n", shown)
	var back string
	require.NoError(t, json.Unmarshal([]byte(shown), &back))
	require.Equal(t, text, back)
}
