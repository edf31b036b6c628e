package redact_test

import (
	"encoding/json"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript/redact"
)

func TestSecrets(t *testing.T) {
	const key = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
	for in, want := range map[string]string{
		"":                     "",
		"nothing to hide here": "nothing to hide here",
		"postgres://app:hunter2@db/main and http://u:p@h":                                       "postgres://app:[masked]@db/main and http://u:[masked]@h",
		"http://example.com:8080/a@b":                                                           "http://example.com:8080/a@b",
		"use sk-ant-api03-" + key + ".":                                                         "use [masked].",
		"ghp_" + key + "\ngithub_pat_" + key:                                                    "[masked]\n[masked]",
		"AKIAABCDEFGHIJKLMNOP":                                                                  "[masked]",
		"host=db password=swordfish port=1":                                                     "host=db password=[masked] port=1",
		"*:*:shop:ana:swordfish\nDB_PASSWORD: umbrella":                                         "*:*:shop:ana:[masked]\nDB_PASSWORD: [masked]",
		"http -a bob:swordfish GET :8080/me":                                                    "http -a bob:[masked] GET :8080/me",
		"curl -s \\\n -H 'a: b' \\\n -d x \\\n -u bob:swordfish":                                "curl -s \\\n -H 'a: b' \\\n -d x \\\n -u bob:[masked]",
		"curl -u :swordfish h; curl --user bob:'swordfish' h":                                   "curl -u :[masked] h; curl --user bob:'[masked]' h",
		"Authorization: Api-Token 22cb987851bc5659":                                             "Authorization: Api-Token [masked]",
		"authorization: 5eb4223e-5008-46e5-be67-c7b8f2732305":                                   "authorization: [masked]",
		"Password:\nhunter2zebra":                                                               "Password:\n[masked]",
		"password=hunter2 now":                                                                  "password=[masked] now",
		"DB_PASSWORD: 's3cr3t word' # db":                                                       "DB_PASSWORD: '[masked]' # db",
		`{"token": "` + key + `", "n": 1}`:                                                      `{"token": "[masked]", "n": 1}`,
		"export AWS_SECRET_ACCESS_KEY=" + key:                                                   "export AWS_SECRET_ACCESS_KEY=[masked]",
		"Authorization: Bearer " + key:                                                          "Authorization: Bearer [masked]",
		"the password is hunter2":                                                               "the password is [masked]",
		"PASS: test-vector1.sh\nPASS: TestLogin2":                                               "PASS: test-vector1.sh\nPASS: TestLogin2",
		"the password is wrong":                                                                 "the password is wrong",
		"the token is missing; tokens: 300":                                                     "the token is missing; tokens: 300",
		"password: null, secret: ${SECRET}":                                                     "password: null, secret: ${SECRET}",
		"f3b1c2d4e5f60718293a4b5c6d7e8f9001122334":                                              "f3b1c2d4e5f60718293a4b5c6d7e8f9001122334",
		"550e8400-e29b-41d4-a716-446655440000":                                                  "550e8400-e29b-41d4-a716-446655440000",
		"-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nbehind":           "[masked]\nbehind",
		"'-----BEGIN PRIVATE KEY-----' +\n\t'" + key + key + "' +\n'-----END PRIVATE KEY-----'": "'[masked]'",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_":                                            "[masked]",
	} {
		got := redact.Secrets(t.Context(), in)
		if got != want {
			t.Errorf("%q becomes %q, not %q", in, got, want)
		}
		if again := redact.Secrets(t.Context(), got); again != got {
			t.Errorf("%q becomes %q the second time", got, again)
		}
	}
}

// Words about passwords stay, in forms, lists, settings, code and the output of programs.
func TestWords(t *testing.T) {
	var texts []string
	for name := range strings.SplitSeq("password|Password|- Password|  password|Pass|Passwort|Kennwort|Contraseña|Mot de passe |Senha|Wachtwoord|Hasło|Пароль|密码|DB password|Forgot password", "|") {
		for word := range strings.FieldsSeq("mandatory forgotten everything incorrecta obligatoire vergessen case-sensitive two-factor read-only compulsory") {
			texts = append(texts, name+": "+word)
		}
	}
	texts = append(texts,
		"host:*:db:user:name", "hostname:5432:database:username:password", "a/b.go:5432:foo:bar:bazz",
		"login(user=user, password=credentials)", "connect(host=h, password=settings, db=d)", "usage: x user=U password=P",
		"https://example.org/a -a b", "http --auth-type basic -a user", "wget -a log https://example.org",
		"DB_PASSWORD: required", "DB_PASSWORD: mandatory", "DB_PASSWORD: unchanged", "DB_PASSWORD: disabled", "PASSWORD: mandatory", "MYSQL_ROOT_PASSWORD: This is needed.",
		`"contentHash": "`+strings.Repeat("aB3d", 21)+`aB==",`, "integrity sha512-"+strings.Repeat("aB3d", 21)+"aB==",
	)
	for _, text := range texts {
		for _, in := range []string{text, "Please note:\n" + text + "\nUsername: bob\n"} {
			require.Equal(t, in, redact.Secrets(t.Context(), in))
		}
	}
}

// Masking blocks of YAML does not copy the text after each.
func TestManyBlocks(t *testing.T) {
	memory := func(n int) uint64 {
		text := strings.Repeat("password: |\n  abc\n", n)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.Equal(t, strings.Repeat("password: |\n  [masked]\n", n), redact.Secrets(t.Context(), text))
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	memory(1)
	require.Less(t, memory(2_000), 30*memory(200))
}

// Masking twice equals masking once, and JSON stays JSON, with its names and
// numbers.
func FuzzSecrets(f *testing.F) {
	for _, s := range []string{"a://b:c@d", "password='x y' token=\"\"", "bearer abc1", "secret is '", "token=[masked]", "api_key => sk-12345678901234567890", "password: |\n a\n b1234567"} {
		f.Add(s)
	}
	files, err := probes.ReadDir("testdata")
	require.NoError(f, err)
	g := generator{rand.New(rand.NewPCG(1, 1))}
	for _, file := range files {
		data, err := probes.ReadFile("testdata/" + file.Name())
		require.NoError(f, err)
		for line := range strings.Lines(string(data)) {
			in, _ := probe(g, strings.TrimSuffix(line, "\n"))
			f.Add(in)
		}
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := redact.Secrets(t.Context(), s)
		require.Equal(t, once, redact.Secrets(t.Context(), once), s)
		if c := strings.TrimSpace(s); c != "" && strings.ContainsAny(c[:1], "{[") && json.Valid([]byte(s)) {
			require.True(t, json.Valid([]byte(once)), once)
		}
	})
}

// If a secret may continue in the next line, a last line is masked: a draft that ends before
// it is held back.
func TestCutTexts(t *testing.T) {
	for _, text := range []string{"- name: DB_PASSWORD\n", "password: |\n", "db:\n  password: |\n    a b\n", "password:\n", "-----BEGIN PRIVATE KEY-----\nabc\n"} {
		got := redact.Secrets(t.Context(), text+"q7Zr2Xk9Tb4Wm1\n")
		require.NotContains(t, got, "q7Zr2Xk9Tb4Wm1", text)
		require.Equal(t, got, redact.Secrets(t.Context(), got))
	}
}

// The work for a text of names, with values or without, grows with its length: each search
// for a name allocates.
func TestManyNames(t *testing.T) {
	n := 6_000
	if testing.Short() {
		n /= 4
	}
	for _, unit := range []string{"token ", "password=", "password: x, ", "a_token_", `token="a b c" `, "|token|x|", "<token>x</", "name: token value: ", strings.Repeat("password=", 22) + "\n"} {
		work := func(n int) float64 {
			text := strings.Repeat(unit, max(1, n/len(unit)))
			return testing.AllocsPerRun(1, func() { redact.Secrets(t.Context(), text) })
		}
		require.LessOrEqual(t, work(4*n), 5*work(n)+100, unit)
	}
}
