package session_test

import (
	"cmp"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
)

func TestKey(t *testing.T) {
	for _, tt := range []struct {
		key  session.Key
		want string
	}{
		{session.Key{Agent: "main", Channel: "cli", Peer: "user"}, "main:cli:user"},
		{session.Key{Agent: "agent", Channel: "cli", Peer: "user"}, "%61gent:cli:user"},
		{session.Key{Agent: "a:b", Channel: "c%d", Peer: "e\n"}, "a%3ab:c%25d:e%0a"},
		{session.Key{Agent: "main", Channel: "telegram", Kind: "group", Peer: "-100123"}, "agent:main:telegram:group:-100123"},
		{session.Key{Agent: "main", Channel: "telegram", Account: "bot", Kind: "group", Peer: "-1"}, "agent:main:telegram:bot:group:-1"},
		{session.Key{Agent: "main", Channel: "telegram", Account: "bot", Kind: "group", Peer: "-1", Thread: "7"}, "agent:main:telegram:bot:group:-1:thread:7"},
		{session.Key{Agent: "agent", Channel: "thread", Kind: "thread", Peer: "thread", Thread: "thread"}, "agent:agent:thread:thread:thread:thread:thread"},
		{session.Key{Agent: "main", Channel: "web", Peer: "日本"}, "main:web:日本"},
		{session.Key{Agent: "main", Peer: "one"}, "main::one"},
	} {
		if got := tt.key.String(); got != tt.want {
			t.Errorf("%+v prints %q, want %q", tt.key, got, tt.want)
		}
		if got, err := session.ParseKey(tt.want); err != nil || got != tt.key {
			t.Errorf("ParseKey(%q) = %+v, %v, want %+v", tt.want, got, err, tt.key)
		}
	}
	for _, bad := range []string{"", "a", "a:b", "a:b:", "agent:b:c", "main::", ":b:c", "agent:a::k:c", "a:b:c:d", "a:b%3A:c", "a:%62:c", "a:b:c\n", "agent:a:b:c:d:e:f", "a:b%:c", "a:\xff:c"} {
		if k, err := session.ParseKey(bad); err == nil {
			t.Errorf("ParseKey(%q) = %+v, want an error", bad, k)
		}
	}
}

// Printing is injective, and parsing accepts exactly what is printed.
func FuzzKey(f *testing.F) {
	f.Add("main", "cli", "", "", "user", "")
	f.Add("agent", "a:b", "%", "\x00", ":", "thread")
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer func() { require.NoError(f, st.Close()) }()
	f.Fuzz(func(t *testing.T, agent, channel, account, kind, peer, thread string) {
		k := session.Key{Agent: agent, Channel: channel, Account: account, Kind: kind, Peer: peer, Thread: thread}
		if _, err := st.Load(t.Context(), k); errors.Is(err, session.ErrKey) {
			t.Skip()
		}
		k.Agent = cmp.Or(k.Agent, "main")
		got, err := session.ParseKey(k.String())
		if err != nil || got != k {
			t.Fatalf("ParseKey(%q) = %+v, %v, want %+v", k.String(), got, err, k)
		}
	})
}
