package wire

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// maxID is the length of IDs in bytes that every provider takes.
const maxID = 64

// An idMap gives every call of a request an ID of its own that the target
// takes, and finds it for the call's result. It goes through the messages in
// order and never looks ahead, so that appended messages change no ID. A valid
// ID stays as it is unless an earlier call has it.
type idMap struct {
	form    idForm
	used    map[string]bool
	tries   map[string]int      // how often an ID was replaced
	answers map[string][]string // of the last answer: IDs given, by ID asked for
}

// open begins an answer.
func (m *idMap) open() { clear(m.answers) }

// call returns the ID for the next call of the answer.
func (m *idMap) call(id string) string {
	given := id
	if !m.form.takes(id) || m.used[id] {
		given = m.replace(id)
	}
	m.take(given)
	m.answers[id] = append(m.answers[id], given)
	return given
}

// result returns the ID for the next result. Of calls that share an ID the
// first result answers the first.
func (m *idMap) result(id string) string {
	given := m.answers[id]
	if len(given) == 0 {
		return id
	}
	if len(given) > 1 {
		m.answers[id] = given[1:]
	}
	return given[0]
}

func (m *idMap) take(id string) { m.used[id] = true }

// replace derives an ID from id and from how often it was replaced before.
// Another call cannot have it by chance; one that has it all the same is
// replaced in its turn.
func (m *idMap) replace(id string) string {
	for {
		m.tries[id]++
		sum := sha256.Sum256([]byte(strconv.Itoa(m.tries[id]) + ":" + id))
		if given := m.form.derive(sum); !m.used[given] {
			return given
		}
	}
}

// An idForm is what IDs a target takes. The zero value is the form of the
// Messages API.
type idForm struct {
	prefix string // of derived IDs
	most   int    // bytes; 0: maxID
	exact  bool   // letters and digits alone, and as many as most
}

func (f idForm) takes(id string) bool {
	if f.exact && (len(id) != f.most || strings.ContainsAny(id, "_-")) {
		return false
	}
	return isID(id) && len(id) <= cmp.Or(f.most, maxID)
}

func (f idForm) derive(sum [sha256.Size]byte) string {
	if f.exact {
		return hex.EncodeToString(sum[:])[:f.most]
	}
	return cmp.Or(f.prefix, "toolu_") + hex.EncodeToString(sum[:16])
}

func isID(id string) bool {
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return id != "" && len(id) <= maxID
}
