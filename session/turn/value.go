package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// maxValues is how many bytes the values of a session may have.
const maxValues = 64 << 10

// NoValue is the after of a [SetValue] that must set the first value of a name.
const NoValue = "-"

// SetValue sets a value of the application, any JSON; nil removes it. No model sees
// it. A rewind and a compaction leave it as it is. A listed value stays listed: the one
// of [session.CreateOptions], or an appended [transcript.Value] with Listed set.
//
// If after is empty the value is set in any case. Otherwise after is the entry ID that
// [Values] returns with the present value, or [NoValue] if the name must not have one; if
// that does not hold the error matches [session.ErrConflict]. SetValue returns the entry
// ID of the new value. Values that would have more than 64 KiB together, names included,
// are refused. After an error nothing was written, as for [session.Session.Append].
func SetValue(ctx context.Context, s *session.Session, name string, value json.RawMessage, after string) (string, error) {
	const op = "set value"
	if !utf8.ValidString(name) {
		return "", failed(op, s, fmt.Errorf("the name %q is not valid UTF-8: nothing was written", name))
	}
	if value != nil && !json.Valid(value) {
		return "", failed(op, s, errors.New("the value is not valid JSON: nothing was written"))
	}
	ids, err := s.Update(ctx, op, func(v *session.View) ([]transcript.Item, error) {
		now, size, listed := NoValue, len(name)+len(value), false
		for _, v := range v.Fold().Standing().Values {
			if v.Name == name {
				now, listed = v.Entry, v.Listed
			} else {
				size += len(v.Name) + len(v.Value)
			}
		}
		switch {
		case after != "" && after != now:
			return nil, fmt.Errorf("%w: the value %q was set by entry %s: nothing was written", session.ErrConflict, name, now)
		case size > maxValues && value != nil:
			return nil, fmt.Errorf("all values would have %d bytes, the limit is %d: nothing was written", size, maxValues)
		}
		return []transcript.Item{transcript.Value{Name: name, Value: value, Listed: listed}}, nil
	})
	if err != nil {
		return "", err
	}
	return ids[0], nil
}

// Values returns the values that [SetValue] has set, the last one at the end. They
// belong to the session: the next session of a key begins without any, and a fork has
// copies.
func Values(ctx context.Context, s *session.Session) (values []rebuild.Value, err error) {
	err = s.View(ctx, func(v *session.View) error {
		values = slices.Clone(v.Fold().Standing().Values)
		return nil
	})
	return values, err
}
