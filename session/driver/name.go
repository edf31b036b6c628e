package driver

import (
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"
)

// A NameError reports a session ID, agent or key that is not a valid name. Every
// driver returns it, also from lookups: the error matches [fs.ErrInvalid], and
// [fs.ErrNotExist] as well, because nothing can exist under the name. Nothing
// was written.
type NameError struct {
	What string // "session ID", "agent", "owner" or "key"
	Name string
	Rule string // for such names
}

// Error returns one line with the name quoted, so that no byte of it reaches a
// terminal or a log as it is. It shows the beginning of a long name.
func (e *NameError) Error() string {
	name, more := e.Name, ""
	if len(name) > 100 {
		name, more = name[:100], fmt.Sprintf("... (%d bytes)", len(e.Name))
	}
	return fmt.Sprintf("%q%s is no %s: use %s", name, more, e.What, e.Rule)
}

// Is reports whether target is one of the two errors that a NameError matches.
func (e *NameError) Is(target error) bool { return target == fs.ErrInvalid || target == fs.ErrNotExist }

// CheckRef returns a [*NameError] unless ref can name a session: an ID is 1 to
// 128 ASCII letters, digits, '.', '_' and '-', and starts with a letter or a
// digit. The session need not exist.
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
		return &NameError{"session ID", ref.ID, "1 to 128 letters, digits, '.', '_' and '-' that start with a letter or a digit"}
	}
	return nil
}

// CheckAgent returns a [*NameError] unless agent can name an agent: 1 to 512
// bytes of UTF-8 without NUL.
func CheckAgent(agent string) error {
	if agent == "" || len(agent) > 512 || !utf8.ValidString(agent) || strings.IndexByte(agent, 0) >= 0 {
		return &NameError{"agent", agent, "1 to 512 bytes of UTF-8 without NUL"}
	}
	return nil
}

// CheckKey returns a [*NameError] unless key can be a key: any text but the empty
// one, of an agent and an owner with names of UTF-8.
func CheckKey(key KeyRef) error {
	switch {
	case key.Key == "" || !utf8.ValidString(key.Key):
		return &NameError{"key", key.Key, "UTF-8 that is not empty"}
	case !utf8.ValidString(key.Owner):
		return &NameError{"owner", key.Owner, "UTF-8"}
	}
	return CheckAgent(key.Agent)
}
