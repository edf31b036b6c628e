package transcript

import (
	"strconv"

	"github.com/convolog/convolog/internal/jsontext"
)

func (h Header) appendMembers(o *jsontext.Object) {
	o.Int("v", int64(h.Version))
	o.String("key", h.Key)
	o.Int("gen", h.Gen)
	if !h.Created.IsZero() {
		o.Func("created", func(dst []byte) []byte { return appendTime(dst, h.Created) })
	}
	h.Meta.appendMembers(o)
}

func (f Fragment) appendMembers(o *jsontext.Object) {
	o.OptString("api", f.API)
	o.OptString("model", f.Model)
	o.OptString("stop_reason", string(f.StopReason))
	if !f.Usage.IsZero() {
		o.Func("usage", f.Usage.appendJSON)
	}
	o.OptString("request_id", f.RequestID)
	o.OptValue("ext", f.Ext)
	switch f.Kind {
	case TypeToolUse:
		if len(f.Content) != 1 {
			return
		}
		if c, ok := f.Content[0].(ToolCallBlock); ok {
			o.String("tool_use_id", c.ID)
			o.String("name", c.Name)
			o.OptValue("input", c.Input)
			writeLineExtra(o, f.Kind, c.Extra)
		}
	case TypeToolResult:
		if len(f.Content) != 1 {
			return
		}
		if r, ok := f.Content[0].(ToolResultBlock); ok {
			o.String("tool_use_id", r.CallID)
			if len(r.Content) > 0 {
				o.Func("content", r.appendContent)
			}
			o.Bool("is_error", r.IsError)
			writeLineExtra(o, f.Kind, r.Extra)
		}
	default:
		o.Func("content", func(dst []byte) []byte { return appendContent(dst, f.Content, f.plain) })
	}
}

func (c Compaction) appendMembers(o *jsontext.Object) {
	o.String("summary", c.Summary)
	o.OptString("firstKeptEntryId", c.FirstKept)
	o.OptString("coversTo", c.CoversTo)
	o.OptInt("turnsBefore", int64(c.TurnsBefore))
	o.OptInt("tokensBefore", int64(c.TokensBefore))
	o.OptInt("tokensAfter", int64(c.TokensAfter))
}

func (c Clip) appendMembers(o *jsontext.Object) {
	o.Func("clips", func(dst []byte) []byte {
		dst = append(dst, '[')
		for i, clip := range c.Clips {
			if i > 0 {
				dst = append(dst, ',')
			}
			o := jsontext.AppendObject(dst)
			o.String("entry", clip.Entry)
			if clip.Block != nil {
				o.Int("block", int64(*clip.Block))
			}
			o.String("content", clip.Content)
			dst = o.End()
		}
		return append(dst, ']')
	})
}

func (r Rewind) appendMembers(o *jsontext.Object) { o.String("to", r.To) }

func (m Meta) appendMembers(o *jsontext.Object) {
	if m.Title != nil {
		o.String("title", *m.Title)
	}
	if m.Owner != nil {
		o.String("owner", *m.Owner)
	}
	if m.Labels != nil {
		o.Func("labels", func(dst []byte) []byte { return appendStrings(dst, m.Labels) })
	}
	if m.TTL != nil {
		o.Int("ttl", *m.TTL)
	}
	if m.Pinned != nil {
		o.Bool("pinned", *m.Pinned)
	}
}

func appendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsontext.AppendString(dst, s)
	}
	return append(dst, ']')
}

func (c Current) appendMembers(o *jsontext.Object) { o.Int("gen", c.Gen) }

func (c Calibration) appendMembers(o *jsontext.Object) {
	o.String("model", c.Model)
	o.OptInt("window", int64(c.Window))
	if c.Factor != 0 {
		o.Func("factor", func(dst []byte) []byte { return strconv.AppendFloat(dst, c.Factor, 'g', -1, 64) })
	}
	o.OptInt("prompt", int64(c.Prompt))
	o.OptInt("failures", int64(c.Failures))
	o.OptInt("failedAt", int64(c.FailedAt))
}

func (s ToolStatus) appendMembers(o *jsontext.Object) {
	o.String("tool_use_id", s.CallID)
	o.String("status", s.Status)
}

func (u Used) appendMembers(o *jsontext.Object) {
	if u.Contexts != nil {
		o.Func("contexts", func(dst []byte) []byte { return appendStrings(dst, u.Contexts) })
	}
	o.OptValue("skill", u.Skill)
}

func (c Commit) appendMembers(o *jsontext.Object) {
	o.String("archive", c.Archive)
	o.OptString("firstEntry", c.FirstEntry)
	o.OptString("lastEntry", c.LastEntry)
	o.OptString("abstract", c.Abstract)
	o.OptString("overview", c.Overview)
}

func (c Custom) appendMembers(o *jsontext.Object) {
	o.String("name", c.Name)
	o.OptValue("data", c.Data)
}

func (u Unknown) appendMembers(o *jsontext.Object) { o.OptBool("critical", u.Critical) }
