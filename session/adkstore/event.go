package adkstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	adk "google.golang.org/adk/v2/session"
	"google.golang.org/genai"

	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// stored is the application data of an entry that is an event.
type stored struct {
	Event *adk.Event `json:"adk"`
}

// itemOf returns the item that stores an event.
func itemOf(event *adk.Event) (transcript.Item, error) {
	data, err := json.Marshal(stored{trimmed(event)})
	if err != nil {
		return nil, err
	}
	if item := message(event); item != nil {
		item = transcript.WithApp(item, data)
		if _, err := transcript.NewBatch(time.Time{}, func() string { return "" }, item); err == nil {
			return item, nil
		}
	}
	return transcript.WithApp(transcript.Custom{Name: "adk"}, data), nil
}

// message returns the message or the answer that an event holds, nil if it holds none that
// a transcript can store. The event is valid JSON.
func message(event *adk.Event) transcript.Item {
	switch {
	case event.Content == nil:
		return nil
	case event.Content.Role == genai.RoleModel:
		body, _ := json.Marshal(map[string]any{
			"responseId": event.ID, "modelVersion": event.ModelVersion, "usageMetadata": event.UsageMetadata,
			"candidates": []any{map[string]any{"content": event.Content, "finishReason": cmp.Or(event.FinishReason, genai.FinishReasonStop)}},
		})
		if answer, err := (gemini.Format{}).Response(body); err == nil {
			return *answer
		}
		return nil
	}
	body, _ := json.Marshal([]*genai.Content{event.Content})
	if items, err := gemini.Contents(body); err == nil && len(items) == 1 {
		return items[0]
	}
	return nil
}

// trimmed returns an event without temporary state. It changes a copy.
func trimmed(event *adk.Event) *adk.Event {
	isTemp := func(name string, _ any) bool { return strings.HasPrefix(name, adk.KeyPrefixTemp) }
	kept := maps.Clone(event.Actions.StateDelta)
	if maps.DeleteFunc(kept, isTemp); len(kept) == len(event.Actions.StateDelta) {
		return event
	}
	out := *event
	out.Actions.StateDelta = kept
	return &out
}

// eventsOf returns the last n events of a session in order, or all if n is 0. It reads
// backward, and leaves out batches that were cut.
func eventsOf(ctx context.Context, kept *session.Session, n int) (events []*adk.Event, err error) {
	var later []int // the parts of a batch after its first line, backward
	for rec, err := range kept.Scan(ctx, session.ScanOptions{Backward: true}) {
		if err != nil {
			return nil, err
		}
		e := rec.Entry
		if e.Part > 1 {
			later = append(later, e.Part)
			continue
		}
		whole := len(later) == max(e.Batch, 1)-1
		for i, part := range later {
			whole = whole && part == e.Batch-i
		}
		later = later[:0]
		if !rec.HasEntry() || !whole || e.App == nil {
			continue
		}
		var s stored
		if err := json.Unmarshal(e.App, &s); err != nil {
			return nil, fmt.Errorf("entry %s: %w", e.ID, err)
		}
		if s.Event == nil { // of another program
			continue
		}
		if events = append(events, s.Event); len(events) == n {
			break
		}
	}
	slices.Reverse(events)
	return events, nil
}
