package transcript

import "encoding/json"

// ErasedText replaces an erased text.
const ErasedText = "[erased]"

// ErasedHash is the IdemHash of a batch from which something was erased, because a
// short text can be guessed from its hash. A retry under the key of the batch counts
// as repeated, with any hash.
const ErasedHash = "erased"

// Erase returns the entry without the words of people, models and tools, and with a
// new line. It keeps data that the rest of the transcript needs: IDs, times, types,
// the place in the batch, names of tools, models and values, numbers, and references
// to other entries. Texts become [ErasedText], and inputs an empty object. Reasoning,
// media, blocks of types that this package does not know, sources and application data
// are dropped. A history with the entry is as valid as before.
//
// Names that an application gives stay: of tools, values and custom entries,
// keys, owners and idempotency keys. Add its checksum afterwards.
func (e Entry) Erase() Entry {
	out := Entry{ID: e.ID, Time: e.Time, Batch: e.Batch, Part: e.Part, Idem: e.Idem, Erased: true}
	if e.Idem != "" {
		out.IdemHash = ErasedHash
	}
	out.Body = erasedBody(e.Body)
	return out
}

// erasedBody returns a body without its words. All members of other types are
// references, names of tools and numbers.
func erasedBody(body Body) Body {
	switch b := body.(type) {
	case Header:
		b.Meta, b.Standing = Meta{TTL: b.Meta.TTL, Keep: b.Meta.Keep}, nil
		return b
	case MessageLine:
		b.Ext = nil
		return b.WithContent(erasedBlocks(b.Content)...)
	case Compaction:
		b.Summary = ErasedText
		b.Said, b.Rules, b.Files, b.Errors, b.IDs, b.Pins = nil, nil, nil, nil, nil, nil
		return b
	case Clip:
		clips := make([]Clipping, len(b.Clips))
		for i, c := range b.Clips {
			c.Content = ErasedText
			clips[i] = c
		}
		b.Clips = clips
		return b
	case System:
		return System{Text: ErasedText}
	case Meta:
		return erasedMeta(b)
	case Used:
		return Used{}
	case Commit:
		b.Abstract, b.Overview = "", ""
		return b
	case Extracted:
		if b.Err != "" { // without Err the commit is not open
			b.Err = ErasedText
		}
		return b
	case Decision:
		b.By, b.Reason = "", ""
		return b
	case Interrupt:
		b.By = ""
		return b
	case Queued:
		b.Content, b.plain = erasedBlocks(b.Content), false
		return b
	case Draft:
		b.Text = ""
		return b
	case Pin:
		b.Text = ""
		return b
	case Value:
		return Value{Name: b.Name}
	case Custom:
		return Custom{Name: b.Name, Covers: b.Covers}
	}
	return body
}

// erasedMeta keeps a title by hand empty, so that no automatic one takes its
// place.
func erasedMeta(m Meta) Meta {
	if m.Title != nil {
		m.Title = new("")
	}
	if m.Labels != nil {
		m.Labels = []string{}
	}
	return m
}

// erasedBlocks keeps calls and results in their places, and one text for each
// run of anything else.
func erasedBlocks(blocks []Block) (kept []Block) {
	for _, b := range blocks {
		switch b := b.(type) {
		case ToolCallBlock:
			kept = append(kept, ToolCallBlock{ID: b.ID, Name: b.Name, Input: json.RawMessage("{}")})
		case ToolResultBlock:
			r := ToolResultBlock{CallID: b.CallID, IsError: b.IsError}
			r.Content, r.plain = []Block{TextBlock{Text: ErasedText}}, true
			kept = append(kept, r)
		case ThinkingBlock, RedactedThinkingBlock:
		default:
			if _, again := last(kept).(TextBlock); !again {
				kept = append(kept, TextBlock{Text: ErasedText})
			}
		}
	}
	return kept
}

func last(blocks []Block) Block {
	if len(blocks) == 0 {
		return nil
	}
	return blocks[len(blocks)-1]
}
