package dialect

import (
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/chatgpt"
	"github.com/convolog/convolog/transcript/dialect/internal/claudeai"
	"github.com/convolog/convolog/transcript/dialect/internal/claudecode"
	"github.com/convolog/convolog/transcript/dialect/internal/codex"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
	"github.com/convolog/convolog/transcript/dialect/internal/gemini"
	"github.com/convolog/convolog/transcript/dialect/internal/opencode"
	"github.com/convolog/convolog/transcript/dialect/internal/openviking"
	"github.com/convolog/convolog/transcript/dialect/internal/pi"
	"github.com/convolog/convolog/transcript/dialect/internal/zyhive"
)

// A program reads the records of one dialect.
type program interface {
	// Decode returns the entries of a record, at least one. It leaves to Place
	// whatever depends on other records.
	Decode(r fields.Record, offset int64) ([]transcript.Entry, error)
	// Genuine distinguishes a record from a value inside of one.
	Genuine(r fields.Record) bool
}

// A planner is a program whose records depend on each other. It gets all of them
// twice, first to learn. The first entry of a record holds its line.
type planner interface {
	program
	Learn(r fields.Record, offset int64, made []transcript.Entry)
	Settle()
	Place(offset int64, made []transcript.Entry) []transcript.Entry
}

// A mover is a planner that puts records back where they were.
type mover interface {
	planner
	// Delay returns the offset of the later record before which the one at
	// offset belongs; ok is false if it stays where it is.
	Delay(offset int64) (before int64, ok bool)
}

// programs make the readers of the dialects that ScanOptions does not read.
var programs = map[Dialect]func() program{
	ChatGPT:    func() program { return chatgpt.New() },
	ClaudeAI:   func() program { return claudeai.New() },
	ClaudeCode: func() program { return claudecode.New() },
	Codex:      func() program { return codex.New() },
	GeminiCLI:  func() program { return gemini.New() },
	OpenCode:   func() program { return opencode.New() },
	OpenViking: func() program { return openviking.Reader{} },
	Pi:         func() program { return pi.New() },
	ZyHive:     func() program { return &zyhive.Reader{} },
}
