package dialect

import (
	"io"
	"maps"
	"strings"
	"time"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// Detect tells the dialect of a transcript from its first records, at most 64
// of them and no more than the first MiB. It is empty if there is none that
// looks like a record of a known dialect: another format, or an empty file.
//
// sure is false if the records do not say enough, or contradict each other. A
// flat file that could be of either program is then called MiniClaw, whose
// reader understands both. The error is one of r.
func Detect(r io.ReaderAt, size int64) (d Dialect, sure bool, err error) {
	const (
		maxRecords = 64
		maxSize    = 1 << 20
	)
	opts := &transcript.ScanOptions{
		Final:   true,
		MaxLine: maxSize,
		Decode: func(line []byte, offset int64) (transcript.Entry, error) {
			if !jsontext.Valid(line) || !jsontext.IsObject(line) {
				_, err := transcript.ParseEntry(line)
				return transcript.Entry{}, err
			}
			return transcript.Entry{Body: transcript.Custom{}}.WithLine(line), nil
		},
	}
	records, flat, conflict := 0, false, false
	for rec, err := range transcript.Scan(r, min(size, maxSize), opts) {
		if err != nil {
			return "", false, err
		}
		if rec.Damage != nil {
			continue
		}
		got, certain, isFlat := classify(rec.Entry.Line())
		if certain {
			return got, !conflict && (d == "" || d == got), nil
		}
		flat = flat || isFlat
		if got != "" {
			conflict = conflict || d != "" && d != got
			if d == "" {
				d = got
			}
		}
		if records++; records == maxRecords {
			break
		}
	}
	switch {
	case d != "":
		return d, !conflict, nil
	case flat:
		return MiniClaw, false, nil
	}
	return "", false, nil
}

// classify says which dialect a record looks like, if it says so, whether that
// settles it, and whether it is a flat record at all.
func classify(line []byte) (d Dialect, certain, flat bool) {
	r := record{}
	maps.Insert(r, jsontext.Members(line))
	has := func(names ...string) bool {
		for _, name := range names {
			if _, ok := r[name]; ok {
				return true
			}
		}
		return false
	}
	kind, _ := jsontext.String(r["type"])
	_, err := time.Parse(time.RFC3339Nano, r.text("ts"))
	stamped := err == nil && jsontext.IsString(r["id"])
	switch kind {
	case transcript.TypeSession:
		switch {
		case has("v"):
			return Native, true, false
		case has("version", "agentId", "cwd"): // of formats that are not read yet
			return "", false, false
		case has("created", "key"):
			return MiniClaw, true, true
		}
		return "", false, false
	case transcript.TypeUser, transcript.TypeAssistant, transcript.TypeToolUse, transcript.TypeToolResult:
	default:
		if stamped && transcriptType(kind) {
			return Native, false, false
		}
		return "", false, false
	}
	switch {
	case has("message", "parts", "parentId", "uuid"):
		return "", false, false
	case stamped, has("mid", "batch", "part"):
		return Native, false, true
	case kind == transcript.TypeToolResult && has("output"):
		return MiniClaw, false, true
	case r["ts"] != nil && strings.ContainsAny(string(r["ts"][:1]), "-0123456789"):
		return Claw0, false, true
	case has("ts") && err == nil:
		return MiniClaw, false, true
	case jsontext.IsArray(r["content"]), kind == transcript.TypeToolResult && has("content"):
		return Claw0, false, true
	}
	return "", false, true
}

// transcriptType reports whether only the native format has lines of a type.
func transcriptType(kind string) bool {
	switch kind {
	case transcript.TypeCompaction, transcript.TypeClip, transcript.TypeRewind, transcript.TypeMeta, transcript.TypeCurrent,
		transcript.TypeCalibration, transcript.TypeToolStatus, transcript.TypeUsed, transcript.TypeCommit, transcript.TypeCustom:
		return true
	}
	return false
}
