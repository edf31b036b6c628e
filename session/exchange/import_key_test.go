package exchange_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript/dialect"
)

func TestImportKey(t *testing.T) {
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
		k, err := exchange.ImportKey(dialect.Session{Key: in})
		if err != nil || k.String() != want {
			t.Errorf("ImportKey of %q = %s, %v, want %s", in, k, err, want)
		}
	}
	for want, s := range map[string]dialect.Session{
		"worker:foreign:whatever":        {Key: "whatever", Agent: "worker"},
		"worker:foreign:agent%3amain%3a": {Key: "agent:main:", Agent: "worker"},
		"x:foreign:agent%3ax%3a":         {Key: "agent:x:", Agent: "worker"},
		"main:zyhive:1":                  {Dialect: dialect.ZyHive, ID: "1"},
		"worker:zyhive:a.jsonl":          {Dialect: dialect.ZyHive, Path: "a.jsonl", Agent: "worker"},
	} {
		k, err := exchange.ImportKey(s)
		require.NoError(t, err)
		require.Equal(t, want, k.String())
	}
	for _, s := range []dialect.Session{{}, {Dialect: dialect.ZyHive}, {Key: "agent:_erase:x"}, {Key: "x", Agent: "a\xff"}} {
		_, err := exchange.ImportKey(s)
		require.ErrorIs(t, err, session.ErrKey, "%+v", s)
	}
}

// Keys of other programs that differ stay apart.
func FuzzImportKey(f *testing.F) {
	f.Add("x", "agent:main:x")
	f.Add("main:foreign:x", "x")
	f.Add("x\xff", "x\xfe")
	f.Add("agent:main:foreign:bytes:78ff", "x\xff")
	f.Add(strings.Repeat("\xff", 1000), "x")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, errX := exchange.ImportKey(dialect.Session{Key: a})
		y, errY := exchange.ImportKey(dialect.Session{Key: b})
		if errX != nil || errY != nil {
			const long = 400 // bytes, each perhaps three here
			if refused := func(key string) bool { return key == "" || len(key) > long || strings.HasPrefix(key, "agent:_") }; !refused(a) && !refused(b) {
				t.Fatalf("ImportKey: %v, %v", errX, errY)
			}
			return
		}
		if a != b && x == y || x.String() == y.String() && a != b {
			t.Fatalf("%q and %q are one key %s", a, b, x)
		}
	})
}

// An import leaves the session of its key current, whatever else is in the same group.
func TestImportBesideAThread(t *testing.T) {
	st := inMemory()
	group := session.Key{Agent: "main", Channel: "telegram", Kind: "group", Peer: "42"}
	thread := group
	thread.Thread = "7"
	own := storetest.Load(t, st, group)
	say(t, own, "in the group")
	say(t, storetest.Load(t, st, thread), "in a thread of it")
	im := importAll(t, st, sessionsIn(t, flatFolder(flatSource)), &exchange.ImportOptions{
		Key: func(dialect.Session) (session.Key, error) { return group, nil },
	})[0]
	require.NoError(t, im.Err)
	require.True(t, im.Created)
	require.Equal(t, own.Ref(), storetest.Load(t, st, group).Ref())
}
