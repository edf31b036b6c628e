package dialect

import (
	"errors"
	"fmt"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/flat"
)

// A Dialect names a format of transcripts. The empty string means none.
type Dialect string

// ErrChannelLog reports that a file is the log of a channel and not a session.
// Such a log is for administrators, and agents must not see its content.
var ErrChannelLog = errors.New("the log of a channel is not a session: read it with package session/serve/zyhive/convlog")

// A CompressedError reports a transcript that its program has compressed with zstd.
type CompressedError struct{ Path string }

// Error implements error.
func (e *CompressedError) Error() string {
	return fmt.Sprintf("%s is compressed: decompress it with zstd -d, then read it again", e.Path)
}

// The dialects that Detect distinguishes. All but ZyHiveLog can be read.
const (
	Native     Dialect = "native"      // the format of package transcript
	MiniClaw   Dialect = "mini-claw"   // flat records with ISO times, results under "output"
	Claw0      Dialect = "claw0"       // flat records with Unix times, results under "content"
	ZyHive     Dialect = "zyhive"      // messages in an envelope, times in milliseconds
	ZyHiveLog  Dialect = "zyhive-log"  // ZyHive's log of a channel, not a session: see ErrChannelLog
	OpenViking Dialect = "openviking"  // messages made of parts, in a folder with archives
	Pi         Dialect = "pi"          // trees of entries, version 1 to 3, of pi and OpenClaw
	ClaudeCode Dialect = "claude-code" // trees of rows with a uuid, as in its projects folder
	Codex      Dialect = "codex"       // rollouts: items of the Responses API and events
	ChatGPT    Dialect = "chatgpt"     // conversations.json of an export: trees of messages
	ClaudeAI   Dialect = "claude-ai"   // conversations.json of an export of claude.ai
	OpenCode   Dialect = "opencode"    // the output of opencode export
	GeminiCLI  Dialect = "gemini-cli"  // chats of Gemini CLI, as a document or as lines
)

// ScanOptions returns new options with which transcript.Scan and
// transcript.ScanBackward read a dialect whose records do not depend on each
// other: Native, MiniClaw or Claw0. The caller may set the other fields. It
// fails for any other d; [Dialect.Scan] reads all.
func (d Dialect) ScanOptions() (*transcript.ScanOptions, error) {
	switch d {
	case Native:
		return &transcript.ScanOptions{}, nil
	case MiniClaw:
		return &transcript.ScanOptions{Decode: flat.Decoder("output", "content")}, nil
	case Claw0:
		return &transcript.ScanOptions{Decode: flat.Decoder("content", "output")}, nil
	default:
		return nil, fmt.Errorf("dialect: %q is not read record by record: use Scan", string(d))
	}
}
