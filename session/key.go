package session

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/convolog/convolog/session/driver"
)

// inMain returns a reference with an agent: without one it is "main".
func inMain(ref Ref) Ref { return Ref{Agent: cmp.Or(ref.Agent, "main"), ID: ref.ID} }

// A Key names the place of a conversation: an agent, a channel and a peer.
// Different keys never share a history.
//
// Channel and Peer are required, except in [Store.Create]; an empty Agent means "main". The
// name of an agent must not begin with '_': such agents belong to the library, see
// [Store.Create]. Kind is the kind of the peer (direct, group, ...); it is required if
// Account or Thread is set. The printed form has at most 1,024 bytes.
type Key struct {
	Agent   string `json:"agent,omitempty"`
	Channel string `json:"channel,omitempty"`
	Account string `json:"account,omitempty"`
	Kind    string `json:"kind,omitempty"`
	Peer    string `json:"peer,omitempty"`
	Thread  string `json:"thread,omitempty"`
}

// ErrKey reports an invalid [Key], or a text that [ParseKey] refuses.
var ErrKey = errors.New("not a session key")

func (k Key) check() error {
	for _, p := range []struct{ name, value string }{
		{"Agent", k.Agent},
		{"Channel", k.Channel},
		{"Account", k.Account},
		{"Kind", k.Kind},
		{"Peer", k.Peer},
		{"Thread", k.Thread},
	} {
		if !utf8.ValidString(p.value) {
			return fmt.Errorf("%w: %s %q is not valid UTF-8", ErrKey, p.name, p.value)
		}
	}
	switch {
	case ofLibrary(k.Agent):
		return fmt.Errorf("%w: names of agents that begin with '_', such as %q, belong to the library", ErrKey, k.Agent)
	case k.Peer == "" || k.Channel == "" && !k.isOfOne():
		return fmt.Errorf("%w: Channel and Peer must be set in %#v", ErrKey, k)
	case k.Kind == "" && (k.Account != "" || k.Thread != ""):
		return fmt.Errorf("%w: Kind must be set in %#v, as Account or Thread is", ErrKey, k)
	}
	if n := len(k.String()); n > maxKey {
		return fmt.Errorf("%w: %w", ErrKey, tooLong("key", n, maxKey))
	}
	return nil
}

// isOfOne reports whether [Store.Create] gives such a key to a session found by ID
// alone: the Peer is that ID.
func (k Key) isOfOne() bool { return k == Key{Agent: k.Agent, Peer: k.Peer} }

// in returns the agent of the key.
func (k Key) in() string { return cmp.Or(k.Agent, "main") }

// ofLibrary reports whether an agent holds sessions of the library itself.
func ofLibrary(agent string) bool { return strings.HasPrefix(agent, "_") }

// String returns the printed form of the key: agent:channel:peer, or with a
// Kind agent:<agent>:<channel>[:<account>]:<kind>:<peer>[:thread:<thread>].
// In every part ':', '%' and control bytes are written as %xx, and an agent
// called "agent" as %61gent, so that different keys never print alike.
func (k Key) String() string {
	parts := []string{escapePart(k.in()), escapePart(k.Channel)}
	if k.Kind == "" {
		if parts[0] == "agent" {
			parts[0] = "%61gent"
		}
		return strings.Join(append(parts, escapePart(k.Peer)), ":")
	}
	parts = append([]string{"agent"}, parts...)
	if k.Account != "" {
		parts = append(parts, escapePart(k.Account))
	}
	parts = append(parts, escapePart(k.Kind), escapePart(k.Peer))
	if k.Thread != "" {
		parts = append(parts, "thread", escapePart(k.Thread))
	}
	return strings.Join(parts, ":")
}

// ParseKey is the inverse of [Key.String] and accepts nothing else: other texts give an
// [InputError].
func ParseKey(s string) (Key, error) {
	p := strings.Split(s, ":")
	var k Key
	switch n := len(p); {
	case n == 3:
		k = Key{Agent: p[0], Channel: p[1], Peer: p[2]}
	case n == 5 && p[0] == "agent":
		k = Key{Agent: p[1], Channel: p[2], Kind: p[3], Peer: p[4]}
	case n == 6 && p[0] == "agent":
		k = Key{Agent: p[1], Channel: p[2], Account: p[3], Kind: p[4], Peer: p[5]}
	case n == 7 && p[0] == "agent" && p[5] == "thread":
		k = Key{Agent: p[1], Channel: p[2], Kind: p[3], Peer: p[4], Thread: p[6]}
	case n == 8 && p[0] == "agent" && p[6] == "thread":
		k = Key{Agent: p[1], Channel: p[2], Account: p[3], Kind: p[4], Peer: p[5], Thread: p[7]}
	}
	for _, part := range []*string{&k.Agent, &k.Channel, &k.Account, &k.Kind, &k.Peer, &k.Thread} {
		if plain, err := url.PathUnescape(*part); err == nil { // else String() != s
			*part = plain
		}
	}
	switch {
	case len(s) > maxKey:
		return Key{}, fmt.Errorf("%w: %w", ErrKey, tooLong("key", len(s), maxKey))
	case k.check() != nil || k.String() != s:
		return Key{}, fmt.Errorf("%w: %w", ErrKey, &InputError{"key", fmt.Sprintf("%q: want agent:channel:peer or agent:<agent>:<channel>[:<account>]:<kind>:<peer>[:thread:<id>], "+
			"with ':', '%%' and control bytes inside a part written as %%xx", s)})
	}
	return k, nil
}

func escapePart(s string) string {
	var sb strings.Builder
	for i := 0; i < len(s); i++ {
		if c := s[i]; c == ':' || c == '%' || c < ' ' || c == 0x7f {
			fmt.Fprintf(&sb, "%%%02x", c)
		} else {
			sb.WriteByte(c)
		}
	}
	return sb.String()
}

// lastID is when the last ID was made, in 4,096ths of a millisecond.
var lastID struct {
	sync.Mutex
	at uint64
}

// ForeignID returns an ID for a session that another program names by any text: the text
// itself if it is a valid ID, otherwise a UUID of version 8 made from its bytes, always the
// same. IDs are unique among all owners of an agent, so a text that only one owner uses
// needs the name of the owner in it:
//
//	id := session.ForeignID(fmt.Sprintf("%d:%s%s", len(owner), owner, name))
func ForeignID(text string) string {
	if driver.CheckRef(Ref{Agent: "-", ID: text}) == nil {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	id := uuid.UUID(sum[:16])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return id.String()
}

// newID returns a UUID of version 7, greater than all that it has returned before.
func newID() string {
	var id uuid.UUID
	_, _ = rand.Read(id[:]) // never fails
	lastID.Lock()
	lastID.at = max(uint64(time.Now().UnixMicro())<<12/1000, lastID.at+1)
	binary.BigEndian.PutUint64(id[:], lastID.at>>12<<16|7<<12|lastID.at&0xfff)
	lastID.Unlock()
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}
