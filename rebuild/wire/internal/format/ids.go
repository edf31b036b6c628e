package format

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// MaxID is the length in bytes of an ID that every provider takes.
const MaxID = 64

// An idMap gives every call of a request a unique ID that the target takes, and
// finds it for the call's result. It goes through the messages in order and
// never looks ahead, so that appended messages change no ID. A valid ID stays
// as it is unless an earlier call has it.
type idMap struct {
	form    IDForm
	Used    map[string]bool
	tries   map[string]int      // how often an ID was replaced
	answers map[string][]string // of the last answer: new IDs by old ID
}

// Open begins an answer.
func (m *idMap) Open() { clear(m.answers) }

// call returns the ID for the next call of the answer.
func (m *idMap) call(id string) string {
	given := id
	if !m.form.takes(id) || m.Used[id] {
		given = m.replace(id)
	}
	m.Used[given] = true
	m.answers[id] = append(m.answers[id], given)
	return given
}

// Result returns the ID for the next result. If calls share an ID, their
// results answer them in order.
func (m *idMap) Result(id string) string {
	given := m.answers[id]
	if len(given) == 0 {
		return id
	}
	if len(given) > 1 {
		m.answers[id] = given[1:]
	}
	return given[0]
}

// replace derives an ID from id and from how often that was replaced before. No
// other call has the new ID by chance; a later call that has it anyway gets
// another one.
func (m *idMap) replace(id string) string {
	for {
		m.tries[id]++
		sum := sha256.Sum256([]byte(strconv.Itoa(m.tries[id]) + ":" + id))
		given := cmp.Or(m.form.Prefix, "toolu_") + hex.EncodeToString(sum[:16])
		if m.form.Exact {
			given = hex.EncodeToString(sum[:])[:m.form.Most]
		}
		if !m.Used[given] {
			return given
		}
	}
}

// An IDForm is the form of a target's IDs. The zero value is the form of the
// Messages API.
type IDForm struct {
	Prefix string // of derived IDs
	Most   int    // bytes; 0: MaxID
	Exact  bool   // only letters and digits, exactly Most
}

func (f IDForm) takes(id string) bool {
	if f.Exact && (len(id) != f.Most || strings.ContainsAny(id, "_-")) {
		return false
	}
	return IsID(id) && len(id) <= cmp.Or(f.Most, MaxID)
}

// IsID reports whether every provider takes an ID.
func IsID(id string) bool {
	const takes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	return id != "" && len(id) <= MaxID && strings.Trim(id, takes) == ""
}
