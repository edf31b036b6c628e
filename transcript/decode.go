package transcript

import (
	"slices"
	"strconv"

	"github.com/convolog/convolog/internal/jsontext"
)

// ParseEntry decodes one line of a native transcript, given without its
// newline. The entry retains line; the caller must not modify it afterwards.
// The error is a *[DamageError] that says why the line is not an entry.
// ParseEntry does not verify checksums; see [Intact].
//
// An entry is a JSON object in valid UTF-8 with a string member "type". A known
// type whose members have the wrong JSON type is not an entry; an unknown type
// becomes [Unknown].
func ParseEntry(line []byte) (Entry, error) {
	e, err := decodeEntry(jsontext.Trim(line))
	if err != nil {
		// Damage to the text outranks what decoding it has reported.
		if kind := classify(line); kind != "" {
			err = &DamageError{Kind: kind}
		}
		return Entry{}, err
	}
	return e, nil
}

// decodeEntry decodes a line that has no white space around it and validates it
// in the same pass. Its error is only meaningful if the line is a valid JSON
// object.
func decodeEntry(line []byte) (Entry, error) {
	kind := ""
	for name, v := range jsontext.Members(line) {
		if name == "type" {
			kind, _ = jsontext.Word(v)
			break
		}
	}
	e, m := Entry{line: line}, members{ok: true}
	for {
		if kind == "" {
			return Entry{}, &DamageError{Kind: DamageMalformed, Reason: "no type"}
		}
		e.Body = decodeBody(kind, line, &e, &m)
		if !m.retype {
			break
		}
		// A second "type" follows: the last of equal names counts.
		kind, e, m = typeMember(line), Entry{line: line}, members{ok: true, typed: true}
	}
	if !m.ok {
		return Entry{}, &DamageError{Kind: DamageMalformed, Reason: kind + " entry: unusable " + strconv.Quote(m.bad)}
	}
	return e, nil
}

// entry decodes the members of the envelope into e and calls body for every
// other member.
func (m *members) entry(kind string, line []byte, e *Entry, body func(name string, v []byte)) {
	w := jsontext.NewWalk(line)
	for w.Next() {
		switch name, v := w.Name, w.Value; name {
		case "type":
			if s, _ := jsontext.Word(v); s != kind && !m.typed {
				m.retype = true
				return
			}
		case "id":
			m.str(&e.ID, v)
		case "ts":
			m.time(&e.Time, v)
		case "batch":
			m.num(&e.Batch, v)
		case "part":
			m.num(&e.Part, v)
		case "idem":
			m.str(&e.Idem, v)
		case "idemHash":
			m.str(&e.IdemHash, v)
		case "src", "crc": // see Source and Sealed
		default:
			body(name, v)
		}
		if !m.ok {
			m.bad = w.Name
			return
		}
	}
	m.ok = w.Valid()
}

// decodeBody decodes the members of a line of the given type into e and returns
// the body.
func decodeBody(kind string, line []byte, e *Entry, m *members) Body {
	switch kind {
	case TypeUser:
		f := Fragment{Kind: kind, Role: RoleUser}
		m.entry(kind, line, e, func(name string, v []byte) {
			switch name {
			case "content":
				m.content(&f.Content, &f.plain, v, false)
			case "mid":
				m.str(&f.Of, v)
			}
		})
		return f
	case TypeAssistant:
		f := Fragment{Kind: kind, Role: RoleAssistant}
		m.entry(kind, line, e, func(name string, v []byte) {
			switch name {
			case "content":
				m.content(&f.Content, &f.plain, v, false)
			case "mid":
				m.str(&f.Of, v)
			case "api":
				m.word(&f.API, v)
			case "model":
				m.str(&f.Model, v)
			case "stop_reason":
				if !jsontext.IsNull(v) {
					m.word((*string)(&f.StopReason), v)
				}
			case "usage":
				m.ok = m.ok && f.Usage.UnmarshalJSON(v) == nil
			case "request_id":
				m.str(&f.RequestID, v)
			case "ext":
				f.Ext = slices.Clone(v)
			}
		})
		return f
	case TypeToolUse:
		f := Fragment{Kind: kind, Role: RoleAssistant}
		var call ToolCallBlock
		m.entry(kind, line, e, func(name string, v []byte) {
			switch name {
			case "mid":
				m.str(&f.Of, v)
			case "tool_use_id":
				m.str(&call.ID, v)
			case "name":
				m.str(&call.Name, v)
			case "input":
				call.Input = slices.Clone(v)
			default:
				call.Extra = addLineExtra(call.Extra, name, v)
			}
		})
		f.Content = []Block{call}
		return f
	case TypeToolResult:
		f := Fragment{Kind: kind, Role: RoleUser}
		var result ToolResultBlock
		m.entry(kind, line, e, func(name string, v []byte) {
			switch name {
			case "mid":
				m.str(&f.Of, v)
			case "tool_use_id":
				m.str(&result.CallID, v)
			case "content":
				m.content(&result.Content, &result.plain, v, true)
			case "is_error":
				m.flag(&result.IsError, v)
			default:
				result.Extra = addLineExtra(result.Extra, name, v)
			}
		})
		f.Content = []Block{result}
		return f
	case TypeSession:
		var b Header
		m.entry(kind, line, e, func(name string, v []byte) {
			switch name {
			case "v":
				m.num(&b.Version, v)
			case "key":
				m.str(&b.Key, v)
			case "gen":
				m.num64(&b.Gen, v)
			case "created":
				m.time(&b.Created, v)
			default:
				m.meta(&b.Meta, name, v)
			}
		})
		return b
	case TypeCompaction:
		var b Compaction
		m.entry(kind, line, e, func(name string, v []byte) {
			switch name {
			case "summary":
				m.str(&b.Summary, v)
			case "firstKeptEntryId":
				m.str(&b.FirstKept, v)
			case "coversTo":
				m.str(&b.CoversTo, v)
			case "turnsBefore":
				m.num(&b.TurnsBefore, v)
			case "tokensBefore":
				m.num(&b.TokensBefore, v)
			case "tokensAfter":
				m.num(&b.TokensAfter, v)
			}
		})
		return b
	case TypeClip:
		var b Clip
		m.entry(kind, line, e, func(name string, v []byte) {
			if name == "clips" {
				b.Clips = nil
				m.ok = m.ok && jsontext.IsArray(v)
				for e := range jsontext.Elements(v) {
					b.Clips = append(b.Clips, m.clipping(e))
				}
			}
		})
		return b
	case TypeRewind:
		var b Rewind
		m.entry(kind, line, e, func(name string, v []byte) {
			if name == "to" {
				m.str(&b.To, v)
			}
		})
		return b
	case TypeMeta:
		var b Meta
		m.entry(kind, line, e, func(name string, v []byte) {
			m.meta(&b, name, v)
		})
		return b
	case TypeCurrent:
		var b Current
		m.entry(kind, line, e, func(name string, v []byte) {
			if name == "gen" {
				m.num64(&b.Gen, v)
			}
		})
		return b
	case TypeCalibration:
		var b Calibration
		m.entry(kind, line, e, func(name string, v []byte) {
			switch name {
			case "model":
				m.str(&b.Model, v)
			case "window":
				m.num(&b.Window, v)
			case "factor":
				f, ok := jsontext.Float(v)
				b.Factor = f
				m.ok = m.ok && ok
			case "prompt":
				m.num(&b.Prompt, v)
			case "failures":
				m.num(&b.Failures, v)
			case "failedAt":
				m.num(&b.FailedAt, v)
			}
		})
		return b
	case TypeToolStatus:
		var b ToolStatus
		m.entry(kind, line, e, func(name string, v []byte) {
			switch name {
			case "tool_use_id":
				m.str(&b.CallID, v)
			case "status":
				m.str(&b.Status, v)
			}
		})
		return b
	case TypeUsed:
		var b Used
		m.entry(kind, line, e, func(name string, v []byte) {
			switch name {
			case "contexts":
				m.strings(&b.Contexts, v)
			case "skill":
				b.Skill = slices.Clone(v)
			}
		})
		return b
	case TypeCommit:
		var b Commit
		m.entry(kind, line, e, func(name string, v []byte) {
			switch name {
			case "archive":
				m.str(&b.Archive, v)
			case "firstEntry":
				m.str(&b.FirstEntry, v)
			case "lastEntry":
				m.str(&b.LastEntry, v)
			case "abstract":
				m.str(&b.Abstract, v)
			case "overview":
				m.str(&b.Overview, v)
			}
		})
		return b
	case TypeCustom:
		var b Custom
		m.entry(kind, line, e, func(name string, v []byte) {
			switch name {
			case "name":
				m.str(&b.Name, v)
			case "data":
				b.Data = slices.Clone(v)
			}
		})
		return b
	}
	b := Unknown{Kind: kind}
	m.entry(kind, line, e, func(name string, v []byte) {
		if name == "critical" {
			b.Critical, _ = jsontext.Bool(v)
		}
	})
	return b
}

// meta decodes one member of a meta entry. Headers may have these members too.
func (m *members) meta(b *Meta, name string, v []byte) {
	switch name {
	case "title":
		b.Title = new(string)
		m.str(b.Title, v)
	case "owner":
		b.Owner = new(string)
		m.str(b.Owner, v)
	case "labels":
		m.strings(&b.Labels, v)
	case "ttl":
		b.TTL = new(int64)
		m.num64(b.TTL, v)
	case "pinned":
		b.Pinned = new(bool)
		m.flag(b.Pinned, v)
	}
}

// Unknown members of tool_use and tool_result lines belong to the block. Extras
// of the block whose names the line itself uses are written one level down, in
// the member "extra".

// addLineExtra returns extra with an unknown member of a line added.
func addLineExtra(extra Extra, name string, v []byte) Extra {
	if name == "extra" && jsontext.IsObject(v) {
		for name, v := range jsontext.Members(v) {
			extra = extra.with(name, v)
		}
		return extra
	}
	return extra.with(name, v)
}

// lineMember reports whether lines of the given type have a member of that
// name.
func lineMember(kind, name string) bool {
	switch name {
	case "type", "id", "ts", "batch", "part", "idem", "idemHash", "src", "crc", "mid", "extra", "tool_use_id":
		return true
	case "name", "input":
		return kind == TypeToolUse
	case "content", "is_error":
		return kind == TypeToolResult
	}
	return false
}
