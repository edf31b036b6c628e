package dialect_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"strings"
	"testing/fstest"
	"time"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

func Example() {
	file := `{"type": "session", "id": "0123456789ab", "key": "main:cli:user", "created": "2026-02-24T10:00:00+00:00"}
{"type": "user", "content": "hello", "ts": "2026-02-24T10:00:01+00:00"}
{"type": "assistant", "content": "Hi the{"type": "user", "content": "still there?", "ts": "2026-02-24T10:05:00+00:00"}
`
	r, size := strings.NewReader(file), int64(len(file))
	d, sure, err := dialect.Detect(r, size)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d, sure)
	for rec, err := range d.Scan(r, size, &transcript.ScanOptions{Final: true}) {
		switch {
		case err != nil:
			log.Fatal(err)
		case rec.Damage != nil:
			fmt.Println(rec.Damage)
		default:
			fmt.Println(rec.Entry.ID, rec.Entry.Type())
		}
	}
	// Output:
	// mini-claw true
	// 0123456789ab session
	// @106 user
	// torn: 40 bytes at offset 178
	// @218 user
}

// A folder of ZyHive, whose index has lost one of the sessions.
func ExampleReadFolder() {
	const header = `{"type":"session","version":3,"agentId":"scout","createdAt":1772355600000}` + "\n"
	folder, err := dialect.ReadFolder(fstest.MapFS{
		"sessions.json": {Data: []byte(`{"sessions":{"ses-1":{"id":"ses-1","filePath":"ses-1.jsonl","title":"Weather"}}}`)},
		"ses-1.jsonl":   {Data: []byte(header)},
		"ses-2.jsonl":   {Data: []byte(header + `{"type":"message","message":{"role":"user","content":"hello"},"timestamp":1772355601000}`)},
	})
	if err != nil {
		log.Fatal(err)
	}
	for s := range folder.Sessions() {
		fmt.Printf("%s %s %q, in the index: %v, messages: %d\n", s.Dialect, s.ID, s.Title, s.Indexed, s.Messages)
	}
	// Output:
	// zyhive ses-1 "Weather", in the index: true, messages: 0
	// zyhive ses-2 "hello", in the index: false, messages: 1
}

func ExampleWriter() {
	files := map[string]*bytes.Buffer{}
	w, err := dialect.NewWriter(dialect.MiniClaw, func(name string) (io.WriteCloser, error) {
		files[name] = new(bytes.Buffer)
		return closer{files[name]}, nil
	})
	if err != nil {
		log.Fatal(err)
	}
	at := time.Date(2026, 2, 24, 10, 0, 0, 0, time.UTC)
	batch, err := transcript.NewBatch(at, func() string { return "e" }, transcript.UserText("hello"))
	if err != nil {
		log.Fatal(err)
	}
	lost, err := w.Write(dialect.Session{ID: "0123456789ab", Key: "main:cli:user", Created: at}, func(yield func(transcript.Entry, error) bool) {
		for _, e := range batch {
			if !yield(e, nil) {
				return
			}
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Print("lost: ", len(lost), "\n", files["transcripts/main_cli_user_0123456789ab.jsonl"])
	// Output:
	// lost: 0
	// {"type":"session","id":"0123456789ab","key":"main:cli:user","created":"2026-02-24T10:00:00.000000+00:00"}
	// {"type":"user","content":"hello","ts":"2026-02-24T10:00:00.000000+00:00"}
}

type closer struct{ io.Writer }

func (closer) Close() error { return nil }
