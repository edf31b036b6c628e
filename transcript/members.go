package transcript

import (
	"maps"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/title"
)

// members carries the members common to all lines, except the type, which comes
// first, and the checksum, which is last. Mid is the Of of a fragment, nil for
// other bodies.
func (e *Entry) members(c *codec, mid *string) {
	c.optStr("id", &e.ID)
	c.optTime("ts", &e.Time)
	c.optNum("batch", &e.Batch)
	if mid != nil {
		c.optStr("mid", mid)
	}
	c.optNum("part", &e.Part)
	c.optStr("idem", &e.Idem)
	c.optStr("idemHash", &e.IdemHash)
	c.optRaw("app", &e.App)
	c.optFlag("erased", &e.Erased)
}

func (h *Header) members(c *codec) {
	c.num("v", &h.Version)
	c.str("key", &h.Key)
	c.num64("gen", &h.Gen)
	c.optNum("rev", &h.Rev)
	c.optTime("created", &h.Created)
	c.optStr("owner", &h.Owner)
	h.Meta.members(c)
	c.optEntries("standing", &h.Standing)
	optObject(c, "base", &h.Base, (*Link).members)
	optList(c, "descent", &h.Descent, (*Link).members)
	optObject(c, "parent", &h.Parent, (*Link).members)
}

func (l *Link) members(c *codec) {
	c.optStr("agent", &l.Agent)
	c.optStr("session", &l.Session)
	c.optStr("entry", &l.Entry)
	c.optNum("lines", &l.Lines)
}

// answer carries the members of a first line about the whole answer.
func (f *MessageLine) answer(c *codec) {
	c.optWord("api", &f.API)
	c.optStr("model", &f.Model)
	if !c.isNull() {
		c.optWord("stop_reason", (*string)(&f.StopReason))
	}
	c.optUsage("usage", &f.Usage)
	c.optStr("request_id", &f.RequestID)
	f.Made.members(c)
	c.optRaw("ext", &f.Ext)
}

// message carries the content of a user or an assistant line.
func (f *MessageLine) message(c *codec) { c.content("content", &f.Content, &f.plain, false) }

func (f *MessageLine) user(c *codec) {
	c.optStr("queued", &f.Queued)
	f.message(c)
}

// line carries the members of a tool_use line. Members of no field belong to the
// block; see [codec.lineExtra].
func (b *ToolCallBlock) line(c *codec) {
	c.str("tool_use_id", &b.ID)
	c.str("name", &b.Name)
	c.optRaw("input", &b.Input)
	c.lineExtra(TypeToolUse, &b.Extra)
}

func (b *ToolResultBlock) line(c *codec) {
	c.str("tool_use_id", &b.CallID)
	b.content(c)
	c.flag("is_error", &b.IsError)
	c.lineExtra(TypeToolResult, &b.Extra)
}

func (b *Compaction) members(c *codec) {
	c.str("summary", &b.Summary)
	c.optStr("firstKeptEntryId", &b.FirstKept)
	c.optStr("coversTo", &b.CoversTo)
	optStrs(c, "read", &b.Read)
	c.optNum("turnsBefore", &b.TurnsBefore)
	c.optNum("tokensBefore", &b.TokensBefore)
	c.optNum("tokensAfter", &b.TokensAfter)
	optList(c, "said", &b.Said, (*Carried).members)
	optList(c, "rules", &b.Rules, (*Carried).members)
	optList(c, "files", &b.Files, (*Carried).members)
	optList(c, "errors", &b.Errors, (*Carried).members)
	optList(c, "ids", &b.IDs, (*Carried).members)
	optList(c, "pins", &b.Pins, (*Carried).members)
	c.optEntries("standing", &b.Standing)
}

func (i *Carried) members(c *codec) {
	c.optStr("entry", &i.Entry)
	c.str("text", &i.Text)
	c.optFlag("open", &i.Open)
	c.optFlag("modified", &i.Modified)
	c.optStr("tool", &i.Tool)
	c.optStr("path", &i.Path)
	c.optStr("to", &i.To)
	c.optStr("toEntry", &i.ToEntry)
}

func (b *Clip) members(c *codec) { list(c, "clips", &b.Clips, (*Clipping).members) }

func (b *Clipping) members(c *codec) {
	c.str("entry", &b.Entry)
	if present(c, "block", &b.Block) {
		c.num("block", b.Block)
	}
	c.str("content", &b.Content)
}

func (b *Hide) members(c *codec) {
	optStrs(c, "entries", &b.Entries)
	c.optFlag("off", &b.Off)
}

func (b *Rewind) members(c *codec) { c.str("to", &b.To) }

func (b *System) members(c *codec) { c.str("text", &b.Text) }

func (b *Tools) members(c *codec) { optStrs(c, "tool_names", &b.Names) }

// members also writes the members that a header shares.
func (b *Meta) members(c *codec) {
	if present(c, "title", &b.Title) {
		text := title.Clean(*b.Title)
		c.str("title", &text)
		b.Title = new(title.Clean(text))
	}
	c.optStr("titleBy", &b.TitleBy)
	optStrs(c, "labels", &b.Labels)
	if present(c, "ttl", &b.TTL) {
		c.num64("ttl", b.TTL)
	}
	if present(c, "keep", &b.Keep) {
		c.flag("keep", b.Keep)
	}
	if present(c, "trashed", &b.Trashed) {
		c.num64("trashed", b.Trashed)
	}
}

func (b *Current) members(c *codec) { c.num64("gen", &b.Gen) }

func (b *Calibration) members(c *codec) {
	c.str("model", &b.Model)
	c.optNum("window", &b.Window)
	c.optFloat("factor", &b.Factor)
	c.optNum("prompt", &b.Prompt)
	c.optNum("failures", &b.Failures)
	c.optNum("failedAt", &b.FailedAt)
	c.optStr("endpoint", &b.Endpoint)
	optStrs(c, "without", &b.Without)
	c.optNum("images", &b.Images)
	c.optNum("side", &b.Side)
	c.optNum("messages", &b.Messages)
	if c.encoding && b.Left != nil || c.name == "left" {
		list(c, "left", &b.Left, (*BlockRef).members)
		b.Left = append([]BlockRef{}, b.Left...) // an empty list is not nil
	}
	c.optStr("unread", &b.Unread)
}

func (p *BlockRef) members(c *codec) {
	c.str("entry", &p.Entry)
	c.num("block", &p.Block)
}

func (b *ToolStatus) members(c *codec) {
	c.str("tool_use_id", &b.CallID)
	c.str("status", &b.Status)
}

func (b *Used) members(c *codec) {
	optStrs(c, "contexts", &b.Contexts)
	b.skill(c)
}

// skill ignores other values than objects: earlier programs wrote anything.
func (b *Used) skill(c *codec) {
	switch {
	case c.encoding && b.Skill != nil:
		object(c, "skill", b.Skill, (*SkillUse).members)
	case !c.encoding && c.takes("skill") && jsontext.IsObject(c.value):
		b.Skill = new(decodeObject(c, c.value, (*SkillUse).members))
	}
}

// members carries a member with a value of another type as an extra.
func (b *SkillUse) members(c *codec) {
	if c.encoding || jsontext.IsString(c.value) {
		c.optStr("uri", &b.URI)
		c.optStr("input", &b.Input)
		c.optStr("output", &b.Output)
	}
	if _, ok := jsontext.Bool(c.value); c.encoding || ok {
		c.flag("success", &b.Success)
	}
	c.extra(&b.Extra)
}

func (b *Commit) members(c *codec) {
	c.num("n", &b.N)
	c.optStr("firstEntry", &b.FirstEntry)
	c.optStr("lastEntry", &b.LastEntry)
	optList(c, "runs", &b.Runs, (*Run).members)
	c.optNum("messages", &b.Messages)
	c.optStr("abstract", &b.Abstract)
	c.optStr("overview", &b.Overview)
	optObject(c, "stats", &b.Stats, (*CommitStats).members)
	optStrs(c, "open", &b.Open)
	c.optStr("owner", &b.Owner)
}

func (r *Run) members(c *codec) {
	c.str("first", &r.First)
	c.str("last", &r.Last)
}

func (s *CommitStats) members(c *codec) {
	c.num("commits", &s.Commits)
	c.optNum("contexts", &s.Contexts)
	c.optNum("skills", &s.Skills)
	c.optNum("memories", &s.Memories)
}

func (b *Extracted) members(c *codec) {
	c.str("commit", &b.Commit)
	b.counts(c)
	c.optStr("diff", &b.Diff)
	c.optStr("err", &b.Err)
}

// counts carries an object with a member for each category, in the order of
// their names.
func (b *Extracted) counts(c *codec) {
	switch {
	case c.encoding && len(b.Counts) > 0:
		c.out.Func("counts", func(dst []byte) []byte {
			o := jsontext.AppendObject(dst)
			for _, name := range slices.Sorted(maps.Keys(b.Counts)) {
				count := b.Counts[name]
				o.Func(name, func(dst []byte) []byte { return appendObject(dst, &count, (*ExtractedCount).members) })
			}
			return o.End()
		})
	case !c.encoding && c.takes("counts"):
		c.require(jsontext.IsObject(c.value))
		b.Counts = nil
		for name, v := range jsontext.Members(c.value) {
			if b.Counts == nil {
				b.Counts = map[string]ExtractedCount{}
			}
			b.Counts[name] = decodeObject(c, v, (*ExtractedCount).members)
		}
	}
}

func (n *ExtractedCount) members(c *codec) {
	c.optNum("added", &n.Added)
	c.optNum("merged", &n.Merged)
	c.optNum("skipped", &n.Skipped)
	c.optNum("failed", &n.Failed)
}

func (b *Dispatch) members(c *codec) {
	c.str("call", &b.Call)
	c.str("tool_use_id", &b.CallID)
}

func (b *Decision) members(c *codec) {
	c.str("call", &b.Call)
	c.str("tool_use_id", &b.CallID)
	c.str("decision", (*string)(&b.Verdict))
	c.optStr("by", &b.By)
	c.optStr("reason", &b.Reason)
}

func (b *Interrupt) members(c *codec) {
	c.optStr("by", &b.By)
	c.optStr("ended", &b.Ended)
}

func (b *Queued) members(c *codec) { c.content("content", &b.Content, &b.plain, false) }

func (b *Draft) members(c *codec) {
	c.str("key", &b.Key)
	c.optWord("api", &b.API)
	c.optStr("model", &b.Model)
	b.Made.members(c)
	c.optFlag("off", &b.Off)
	c.optNum("at", &b.At)
	b.At = max(b.At, 0)
	c.str("text", &b.Text)
}

func (m *Made) members(c *codec) {
	c.optStr("after", &m.After)
	c.optStr("thought", &m.Thought)
	c.optStr("promptHash", &m.PromptHash)
	c.optStr("endpoint", &m.Endpoint)
}

func (b *Pin) members(c *codec) {
	c.str("entry", &b.Entry)
	c.optStr("text", &b.Text)
	c.optFlag("off", &b.Off)
}

func (b *Value) members(c *codec) {
	c.str("name", &b.Name)
	c.optRaw("value", &b.Value)
	c.optTrue("listed", &b.Listed)
}

func (b *Erasure) members(c *codec) { optStrs(c, "entries", &b.Entries) }

func (b *Custom) members(c *codec) {
	c.str("name", &b.Name)
	c.optRaw("data", &b.Data)
	optStrs(c, "covers", &b.Covers)
}

func (b *Unknown) members(c *codec) { c.optTrue("critical", &b.Critical) }

func (b *TextBlock) members(c *codec) {
	c.needStr("text", &b.Text)
	c.extra(&b.Extra)
}

func (b *ImageBlock) members(c *codec) {
	object(c, "source", &b.Source, (*Source).members)
	c.found = c.found || c.name == "source"
	c.extra(&b.Extra)
}

func (b *DocumentBlock) members(c *codec) {
	object(c, "source", &b.Source, (*Source).members)
	c.found = c.found || c.name == "source"
	if !c.isNull() { // a null is an extra
		c.optStr("title", &b.Title)
		c.optStr("context", &b.Context)
	}
	c.extra(&b.Extra)
}

func (b *Source) members(c *codec) {
	c.str("type", &b.Type)
	c.optStr("media_type", &b.MediaType)
	c.optStr("data", &b.Data)
	c.optStr("url", &b.URL)
	c.optStr("file_id", &b.FileID)
	optObject(c, "blob", &b.Blob, (*Blob).members)
	c.extra(&b.Extra)
}

func (b *Blob) members(c *codec) {
	c.str("sha256", &b.SHA256)
	c.num("bytes", &b.Bytes)
	c.optNum("width", &b.Width)
	c.optNum("height", &b.Height)
}

func (b *ToolCallBlock) members(c *codec) {
	c.needStr("id", &b.ID)
	c.str("name", &b.Name)
	c.optRaw("input", &b.Input)
	c.extra(&b.Extra)
}

func (b *ToolResultBlock) members(c *codec) {
	c.needStr("tool_use_id", &b.CallID)
	b.content(c)
	c.optFlag("is_error", &b.IsError)
	c.extra(&b.Extra)
}

func (b *ToolResultBlock) content(c *codec) {
	if !c.omits(len(b.Content) == 0) {
		c.content("content", &b.Content, &b.plain, true)
	}
}

func (b *ThinkingBlock) members(c *codec) {
	c.needStr("thinking", &b.Thinking)
	c.optStr("signature", &b.Signature)
	c.extra(&b.Extra)
}

func (b *RedactedThinkingBlock) members(c *codec) {
	c.needStr("data", &b.Data)
	c.extra(&b.Extra)
}

func (b *ContextBlock) members(c *codec) {
	c.needStr("uri", &b.URI)
	c.optStr("context_type", &b.Kind)
	c.optStr("abstract", &b.Abstract)
	c.extra(&b.Extra)
}

// content carries content: null, a string or an array of blocks.
func (c *codec) content(name string, blocks *[]Block, plain *bool, inResult bool) {
	if c.encoding {
		c.out.Func(name, func(dst []byte) []byte { return appendContent(dst, *blocks, *plain) })
	} else if c.takes(name) {
		var err error
		*blocks, *plain, err = decodeContent(c.value, inResult)
		c.require(err == nil)
	}
}

// optUsage leaves out a usage that counts nothing.
func (c *codec) optUsage(name string, p *Usage) {
	if c.encoding {
		if !p.IsZero() {
			c.out.Func(name, p.appendJSON)
		}
	} else if c.takes(name) {
		c.require(p.UnmarshalJSON(c.value) == nil)
	}
}

// optEntries carries entries inside of a line, each an object like a line of its own
// without a checksum. Nil writes no member; an empty list does.
func (c *codec) optEntries(name string, p *[]Entry) {
	switch {
	case c.omits(*p == nil):
	case c.encoding:
		c.out.Func(name, func(dst []byte) []byte {
			dst = append(dst, '[')
			for i, e := range *p {
				if i > 0 {
					dst = append(dst, ',')
				}
				dst = e.appendLine(dst)
			}
			return append(dst, ']')
		})
	case c.takes(name):
		c.require(jsontext.IsArray(c.value))
		*p = []Entry{}
		for v := range jsontext.Elements(c.value) {
			e, err := decodeEntry(v)
			c.require(err == nil)
			*p = append(*p, e.WithLine(nil))
		}
	}
}

// extra carries the members that earlier calls left.
func (c *codec) extra(p *Extra) {
	if c.encoding {
		p.write(&c.out)
	} else if !c.taken && c.name != "type" {
		*p = p.with(c.name, c.value)
	}
}

// lineExtra is extra for a block that is a line of its own. Extras whose names
// the line itself uses are written one level down, in the member "extra".
func (c *codec) lineExtra(kind string, p *Extra) {
	switch {
	case c.encoding:
		writeLineExtra(&c.out, kind, *p)
	case c.taken:
	case c.name == "extra" && jsontext.IsObject(c.value):
		for name, v := range jsontext.Members(c.value) {
			*p = p.with(name, v)
		}
	default:
		*p = p.with(c.name, c.value)
	}
}
