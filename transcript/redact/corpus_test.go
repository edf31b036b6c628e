package redact_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript/redact"
)

// A generator makes strings by the formats that providers publish.
type generator struct{ *rand.Rand }

const (
	lower    = "abcdefghijklmnopqrstuvwxyz"
	upper    = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	numerals = "0123456789"
	alnum    = lower + upper + numerals
	urlsafe  = alnum + "-_"
)

func (g generator) of(alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[g.IntN(len(alphabet))]
	}
	return string(b)
}

func (g generator) hex(n int) string { return g.of("0123456789abcdef", n) }

func (g generator) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.Uint32())
	}
	return b
}

func pick[T any](g generator, list ...T) T { return list[g.IntN(len(list))] }

var dictionary = strings.Fields(`the session keeps what was said and the next request is made from it after a restart
	server client handler token key password secret value module index reader writer update account region bucket deploy
	build release container image volume report summary invoice customer order price error warning timeout retry`)

func (g generator) words(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = pick(g, dictionary...)
	}
	return strings.Join(list, " ")
}

// password is one that a person or a manager of passwords would choose.
func (g generator) password() string {
	return pick(g,
		pick(g, "Sommer", "dragon", "Hunter", "letmein", "Tr0ub4dor", "s3cr3t", "Welcome")+g.of(numerals, 2+g.IntN(3))+pick(g, "", "!", "#", "?"),
		g.of(alnum, 12+g.IntN(12)),
		g.of(alnum+"!#%^*-_+.", 14+g.IntN(6))+"7",
	)
}

func (g generator) jwt() string {
	part := func(v any) string {
		data, _ := json.Marshal(v) // never fails
		return base64.RawURLEncoding.EncodeToString(data)
	}
	return part(map[string]string{"alg": "HS256", "typ": "JWT"}) + "." +
		part(map[string]any{"sub": g.of(numerals, 10), "name": g.of(lower, 8), "iat": 1516239022 + g.IntN(1e8)}) + "." +
		base64.RawURLEncoding.EncodeToString(g.bytes(32))
}

func (g generator) pem(kind string) string {
	var sb strings.Builder
	text := base64.StdEncoding.EncodeToString(g.bytes(300 + g.IntN(900)))
	for len(text) > 64 {
		sb.WriteString(text[:64] + "\n")
		text = text[64:]
	}
	return "-----BEGIN " + kind + "PRIVATE KEY-----\n" + sb.String() + text + "\n-----END " + kind + "PRIVATE KEY-----"
}

// secrets are the kinds of secrets, 20 strings of each. The function returns the
// part that must not be left, and a text that holds it.
func (g generator) secrets() map[string]func() (secret, text string) {
	in := func(make func() string) func() (string, string) {
		return func() (string, string) {
			s := make()
			return s, fmt.Sprintf(pick(g, "%s", "use %s for now", "key: %s\n", "export API_KEY=%s", `{"value":"%s"}`, "curl -H 'x-api-key: %s' https://api.example.com", "- %s (old)\n- next", "`%s`"), s)
		}
	}
	named := func(formats ...string) func() (string, string) {
		return func() (string, string) {
			s := g.password()
			return s, fmt.Sprintf(pick(g, formats...), s)
		}
	}
	return map[string]func() (string, string){
		"aws id":      in(func() string { return pick(g, "AKIA", "ASIA") + g.of(upper+"234567", 16) }),
		"github":      in(func() string { return "gh" + pick(g, "p", "o", "u", "s", "r") + "_" + g.of(alnum, 36) }),
		"github fine": in(func() string { return "github_pat_" + g.of(alnum, 22) + "_" + g.of(alnum, 59) }),
		"gitlab":      in(func() string { return "glpat-" + g.of(urlsafe, 20) }),
		"slack": in(func() string {
			return "xox" + pick(g, "b", "p") + "-" + g.of(numerals, 12) + "-" + g.of(numerals, 13) + "-" + g.of(alnum, 24)
		}),
		"slack hook": in(func() string {
			return "hooks.slack.com/services/T" + g.of(upper+numerals, 8) + "/B" + g.of(upper+numerals, 10) + "/" + g.of(alnum, 24)
		}),
		"stripe": in(func() string {
			return pick(g, "sk", "rk") + "_" + pick(g, "live", "test") + "_" + g.of(alnum, 24+75*g.IntN(2))
		}),
		"google api":   in(func() string { return "AIza" + g.of(urlsafe, 34) + g.of(alnum, 1) }),
		"google oauth": in(func() string { return pick(g, "ya29."+g.of(urlsafe, 120), "GOCSPX-"+g.of(urlsafe, 27)+"x") }),
		"openai": in(func() string {
			return pick(g, "sk-"+g.of(alnum, 20)+"T3BlbkFJ"+g.of(alnum, 20), "sk-proj-"+g.of(urlsafe, 74)+"T3BlbkFJ"+g.of(alnum, 74))
		}),
		"anthropic":    in(func() string { return "sk-ant-" + pick(g, "api03", "admin01") + "-" + g.of(urlsafe, 93) + "AA" }),
		"hugging face": in(func() string { return "hf_" + g.of(lower+upper, 34) }),
		"npm":          in(func() string { return "npm_" + g.of(alnum, 36) }),
		"pypi":         in(func() string { return "pypi-AgEIcHlwaS5vcmc" + g.of(urlsafe, 160) }),
		"sendgrid":     in(func() string { return "SG." + g.of(urlsafe, 22) + "." + g.of(urlsafe, 42) + "x" }),
		"telegram":     in(func() string { return g.of("123456789", 1) + g.of(numerals, 9) + ":AA" + g.of(urlsafe, 32) + "x" }),
		"jwt":          in(g.jwt),
		"private key": func() (string, string) {
			s := g.pem(pick(g, "", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "))
			return s[40:100], "file:\n" + s + "\nend"
		},
		"private key \\n": func() (string, string) {
			s := strings.ReplaceAll(g.pem(""), "\n", `\n`)
			return s[40:100], `{"type":"service_account","private_key":"` + s + `\n"}`
		},
		"aws secret": func() (string, string) {
			s := g.of(alnum+"+/", 40)
			return s, fmt.Sprintf(pick(g, "aws_secret_access_key = %s\n", "export AWS_SECRET_ACCESS_KEY=%s", `"SecretAccessKey": "%s",`, "secret_key: %s"), s)
		},
		"connection": func() (string, string) {
			s := g.of(alnum+"!$%^*-_.", 10+g.IntN(10))
			return s, fmt.Sprintf(pick(g, "postgres://app:%s@db:5432/main", "DATABASE_URL=mysql://root:%s@127.0.0.1/x", "redis://:%s@cache:6379/0", "mongodb+srv://u:%s@c0.example.net/?w=1", "amqps://svc:%s@mq"), s)
		},
		"connection words": named("Server=db;Database=x;User Id=sa;Password=%s;Encrypt=yes", "host=db user=app password=%s dbname=x", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=%sAbCdEfGhIjKlMnOpQr1234==;"),
		"header": func() (string, string) {
			s := pick(g, g.of(alnum, 32), g.hex(40), base64.StdEncoding.EncodeToString([]byte("user:"+g.password())))
			return s, fmt.Sprintf(pick(g, "Authorization: Bearer %s\r\n", `-H "Authorization: Bearer %s"`, "authorization: Basic %s", `{"Authorization":"Bearer %s"}`, "X-Api-Key: %s", "X-Auth-Token: %s"), s)
		},
		"assignment": named("password=%s", "DB_PASSWORD='%s'", "password: %s\n", "  passwd: \"%s\"", "const password = \"%s\";", "--password %s --user x", "mysql_pwd=%s", "export PGPASSWORD=%s", "The password is %s, do not share it."),
		"json": func() (string, string) {
			s := pick(g, g.password(), g.hex(32), g.of(alnum, 40))
			return s, fmt.Sprintf(pick(g, `{"user":"x","password":"%s"}`, `{"client_secret": "%s", "n": 1}`, `{"apiKey":"%s"}`, `"refresh_token": "%s"`, `{\"password\":\"%s\"}`, "api_key = \"%s\"", `access_token=%s&scope=all`), s)
		},
	}
}

// innocents are the kinds of strings that are no secrets, 100 of each. Many of
// them mention secrets without containing one.
func (g generator) innocents() map[string]func() string {
	name := func() string {
		return pick(g, "user", "session", "item", "parse", "next", "max") + pick(g, "Token", "Key", "Password", "Secret", "Index", "Count") + pick(g, "", "", "2", "V1")
	}
	snake := func() string {
		return pick(g, "user", "session", "item", "parse", "next", "max") + "_" + pick(g, "token", "key", "password", "secret", "index") + pick(g, "", "", "_2")
	}
	uuid := func() string { return g.hex(8) + "-" + g.hex(4) + "-4" + g.hex(3) + "-a" + g.hex(3) + "-" + g.hex(12) }
	path := func() string {
		return pick(g, "/", "./", "../", "C:\\", "") + strings.Join([]string{pick(g, dictionary...), pick(g, dictionary...), pick(g, dictionary...) + g.of(numerals, g.IntN(4))}, pick(g, "/", "/", "-", "_")) + pick(g, ".go", ".ts", ".json", ".pem", ".key", "")
	}
	f := func(format string, args ...func() string) string {
		values := make([]any, len(args))
		for i, a := range args {
			values[i] = a()
		}
		return fmt.Sprintf(format, values...)
	}
	word := func() string { return pick(g, dictionary...) }
	number := func() string { return g.of("123456789", 1) + g.of(numerals, g.IntN(6)) }
	sha := func() string { return g.hex(40) }
	return map[string]func() string{
		"git": func() string {
			return f(pick(g, "commit %s", "HEAD is now at %.7s fix", "index %.7s..0000000 100644", "* %.8s (HEAD -> main) release", "git show %s"), sha)
		},
		"digest": func() string {
			return pick(g, "sha256:", "sha512-", "md5 ", "checksum ", "etag: ") + pick(g, g.hex(64), base64.StdEncoding.EncodeToString(g.bytes(64)), g.hex(32))
		},
		"uuid": func() string {
			return f(pick(g, "%s", `{"id":"%s"}`, "request %s failed", "session_id=%s", "/v1/items/%s"), uuid)
		},
		"base64": func() string { return base64.StdEncoding.EncodeToString(g.bytes(500 + g.IntN(2000))) },
		"image": func() string {
			return `<img src="data:image/png;base64,iVBORw0KGgo` + base64.StdEncoding.EncodeToString(g.bytes(300+g.IntN(900))) + `">`
		},
		"certificate": func() string {
			return strings.ReplaceAll(g.pem(""), "PRIVATE KEY", pick(g, "CERTIFICATE", "PUBLIC KEY"))
		},
		"identifier": func() string {
			return f(pick(g, "%s", "func %s() {", "the method %s is deprecated", "%s.%s()", "import { %s } from './x'"), name, name)
		},
		"prose": func() string { return g.words(8+g.IntN(30)) + "." },
		"prose of secrets": func() string {
			return f(pick(g, "The password is wrong, try again.", "Your token is missing or has expired.", "Enter a password: at least 8 characters", "Set the secret in the settings: see chapter %s", "The API key is required for all %s calls.",
				"A token is about four letters, so %s tokens", "basic authentication is off, bearer tokens are used", "Forgot password? Click here.", "the token count is %s of 4096", "password policy: 12 characters", "the secret is out", "key = value pairs", "credentials: see the wiki"), number)
		},
		"path": func() string {
			return f(pick(g, "%s", "open %s: no such file", "-rw-r--r-- 1 root root 1024 %s", "%s:12:3: undefined"), path)
		},
		"url": func() string {
			return "https://" + word() + ".example.com:8080/" + path() + "?page=" + number() + pick(g, "&token_type=bearer", "&sort=key", "#secrets", "&next_page_token=CAUQ"+g.of(alnum, 8))
		},
		"package lock": func() string {
			return f("\"node_modules/%s\": {\n  \"version\": \"1.%s.0\",\n  \"resolved\": \"https://registry.npmjs.org/%s/-/x.tgz\",\n  \"integrity\": \"sha512-"+base64.StdEncoding.EncodeToString(g.bytes(64))+"\"\n}", word, number, word)
		},
		"go.sum": func() string {
			return f("github.com/%s/%s v0.%s.1 h1:"+base64.StdEncoding.EncodeToString(g.bytes(32)), word, word, number)
		},
		"cargo lock": func() string {
			return f("[[package]]\nname = \"%s\"\nversion = \"0.%s.1\"\nchecksum = \""+g.hex(64)+"\"", word, number)
		},
		"go": func() string {
			return f(pick(g, "%s := scanner.Token()", "if token == nil { return %s }", "type %s struct {\n\tPassword string\n\tToken *Token `json:\"token\"`\n}", "password := os.Getenv(\"DB_PASSWORD\") // %s",
				"return &Credentials{Token: token, Secret: s.%s}", "token := tokens[i] // %s", "key := fmt.Sprintf(\"%s:%%d\", id)", "case token.IDENT: return %s", "secret, err := store.%s(ctx)", "apiKey: cfg.%s,"), name)
		},
		"python": func() string {
			return f(pick(g, "def %s(password: str, token: Optional[str] = None):", "token = self.%s(request)", "password = getpass.getpass() # %s", "client = Client(api_key=os.environ['%s'])", "connect(password=%s, user=user)", "SECRET_KEY = config('%s')", "token = %s.headers.get('X-Token')", "auth_token = settings.%s", "secret=secret, token=%s"), snake)
		},
		"script": func() string {
			return f(pick(g, "const token = await %s(user);", "<input type=\"password\" name=\"password\" placeholder=\"%s\">", "password: z.string().min(8), // %s", "secret: process.env.SECRET_%s,", "export type Token = { kind: TokenKind; %s: number };", "if (token.type === '%s') return;", "apiKey: this.%s,", "token: string; // %s"), name)
		},
		"config": func() string {
			return f(pick(g, "max_tokens: %s", "tokens: %s\nlabels: {}", "password: ${DB_PASSWORD}", "secret:\n  secretName: app-%s", "token: <your token %s>", "api_key: \"\"\nport: %s", "passwordMinLength: %s", "secretKeyRef:\n  name: x\n  key: y%s", "token_ttl: %ss", "key: %s", "access_key: YOUR_ACCESS_KEY_%s", "--max-tokens %s --token-budget 12"), number)
		},
		"log": func() string {
			return f(pick(g, "2026-03-01T09:00:00Z INFO token refreshed for user %s in 12ms", "level=warn msg=\"password check failed\" attempt=%s", "auth: basic user=%s ok", "%s tokens in, 25 tokens out", "secret rotated: version %s", "GET /token 200 %sms", "key %s not found"), number)
		},
		"json": func() string {
			return f(pick(g, `{"id":"toolu_`+g.of(alnum, 24)+`","n":%s}`, `{"nextPageToken":"`+g.of(urlsafe, 40)+`","n":%s}`, `{"token_type":"bearer","expires_in":%s}`, `{"usage":{"input_tokens":%s}}`, `{"password":null,"n":%s}`, `{"type":"secret","name":"db","n":%s}`, `{"key":"agent:main:cli:`+g.hex(8)+`","n":%s}`, `{"sort_key":"a%s"}`), number)
		},
	}
}

// The set finds what it should and leaves the rest alone. docs/BENCHMARKS.md has the
// numbers.
func TestCorpus(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(14, 2026))}
	found, wrong, secrets, others := 0, 0, 0, 0
	all := g.secrets()
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		make := all[kind]
		seen := 0
		for range 20 {
			secrets++
			secret, text := make()
			require.Contains(t, text, secret, kind)
			if strings.Contains(redact.Secrets(t.Context(), text), secret) {
				t.Logf("missed, %s: %q", kind, text)
				continue
			}
			seen++
		}
		found += seen
	}
	rest := g.innocents()
	for _, kind := range slices.Sorted(maps.Keys(rest)) {
		make := rest[kind]
		for range 100 {
			others++
			text := make()
			if got := redact.Secrets(t.Context(), text); got != text {
				wrong++
				t.Logf("wrong, %s: %q becomes %q", kind, text, got)
			}
		}
	}
	recall, precision := float64(found)/float64(secrets), float64(found)/float64(found+wrong)
	t.Logf("%d secrets, %d other strings: recall %.3f, precision %.3f, %.4f of the others were masked", secrets, others, recall, precision, float64(wrong)/float64(others))
	if secrets != 500 || others != 2000 || recall < 0.97 || precision < 0.97 {
		t.Errorf("recall %.3f of %d, precision %.3f of %d: want at least 0.97 each", recall, secrets, precision, others)
	}
}
