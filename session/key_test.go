package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
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
		{session.Key{Agent: "main", Channel: "telegram", Account: "bot", Kind: "group", Peer: "-1", Thread: "7"}, "agent:main:telegram:bot:group:-1:thread:7"},
		{session.Key{Agent: "agent", Channel: "thread", Kind: "thread", Peer: "thread", Thread: "thread"}, "agent:agent:thread:thread:thread:thread:thread"},
		{session.Key{Agent: "main", Channel: "web", Peer: "日本"}, "main:web:日本"},
	} {
		if got := tt.key.String(); got != tt.want {
			t.Errorf("%+v prints %q, want %q", tt.key, got, tt.want)
		}
		if got, err := session.ParseKey(tt.want); err != nil || got != tt.key {
			t.Errorf("ParseKey(%q) = %+v, %v, want %+v", tt.want, got, err, tt.key)
		}
	}
	for _, bad := range []string{"", "a", "a:b", "a:b:", "agent:b:c", "a:b:c:d", "a:b%3A:c", "a:%62:c", "a:b:c\n", "agent:a:b:c:d:e:f", "a:b%:c", "a:\xff:c"} {
		if k, err := session.ParseKey(bad); err == nil {
			t.Errorf("ParseKey(%q) = %+v, want an error", bad, k)
		}
	}
}

func TestParseForeignKey(t *testing.T) {
	for in, want := range map[string]string{
		"main:cli:user":                      "main:cli:user",
		"agent:main:main":                    "main:foreign:agent%3amain%3amain",
		"agent:main:telegram:group:-100":     "agent:main:telegram:group:-100",
		"agent:main:discord:channel:1:x:y:z": "main:foreign:agent%3amain%3adiscord%3achannel%3a1%3ax%3ay%3az",
		"agent:x:cron:job:run":               "agent:x:cron:job:run",
		"main:foreign:x":                     "main:foreign:main%3aforeign%3ax",
		"x\xff":                              "agent:main:foreign:bytes:78ff",
		"whatever":                           "main:foreign:whatever",
	} {
		k, err := session.ParseForeignKey(in)
		if err != nil || k.String() != want {
			t.Errorf("ParseForeignKey(%q) = %s, %v, want %s", in, k, err, want)
		}
	}
	_, err := session.ParseForeignKey("")
	require.Error(t, err, "an empty key was accepted")
}

// Printing is injective, and parsing accepts exactly what is printed.
func FuzzKey(f *testing.F) {
	f.Add("main", "cli", "", "", "user", "")
	f.Add("agent", "a:b", "%", "\x00", ":", "thread")
	f.Fuzz(func(t *testing.T, agent, channel, account, kind, peer, thread string) {
		k := session.Key{Agent: agent, Channel: channel, Account: account, Kind: kind, Peer: peer, Thread: thread}
		if k.Validate() != nil {
			t.Skip()
		}
		got, err := session.ParseKey(k.String())
		if err != nil || got != k {
			t.Fatalf("ParseKey(%q) = %+v, %v, want %+v", k.String(), got, err, k)
		}
	})
}

// Keys of other programs that differ stay apart.
func FuzzForeignKeys(f *testing.F) {
	f.Add("x", "agent:main:x")
	f.Add("main:foreign:x", "x")
	f.Add("x\xff", "x\xfe")
	f.Add("agent:main:foreign:bytes:78ff", "x\xff")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, errX := session.ParseForeignKey(a)
		y, errY := session.ParseForeignKey(b)
		if errX != nil || errY != nil {
			if a != "" && b != "" {
				t.Fatalf("ParseForeignKey: %v, %v", errX, errY)
			}
			return
		}
		if a != b && x == y || x.String() == y.String() && a != b {
			t.Fatalf("%q and %q are one key %s", a, b, x)
		}
		require.NoError(t, x.Validate())
	})
}
