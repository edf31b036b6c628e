package driver

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

var (
	errID    = errors.New("not a session ID: use 1 to 128 letters, digits, '.', '_' and '-', starting with a letter or a digit")
	errAgent = errors.New("not an agent name: use 1 to 512 bytes of UTF-8 without NUL")
	errKey   = errors.New("not a key: it is empty or not UTF-8")
)

// CheckRef says whether ref can name a session: an ID is 1 to 128 ASCII
// letters, digits, '.', '_' and '-', and starts with a letter or a digit. It
// does not say whether there is such a session.
func CheckRef(ref Ref) error {
	if err := CheckAgent(ref.Agent); err != nil {
		return err
	}
	bad := ref.ID == "" || len(ref.ID) > 128
	for i := 0; !bad && i < len(ref.ID); i++ {
		c := ref.ID[i]
		alnum := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		bad = !alnum && (i == 0 || c != '.' && c != '_' && c != '-')
	}
	if bad {
		return fmt.Errorf("session ID %q: %w", ref.ID, errID)
	}
	return nil
}

// CheckAgent says whether agent can name an agent: 1 to 512 bytes of UTF-8
// without NUL.
func CheckAgent(agent string) error {
	if agent == "" || len(agent) > 512 || !utf8.ValidString(agent) || strings.IndexByte(agent, 0) >= 0 {
		return fmt.Errorf("agent %q: %w", agent, errAgent)
	}
	return nil
}

// CheckKey says whether key can be a key: any text but the empty one.
func CheckKey(key string) error {
	if key == "" || !utf8.ValidString(key) {
		return fmt.Errorf("key %q: %w", key, errKey)
	}
	return nil
}
