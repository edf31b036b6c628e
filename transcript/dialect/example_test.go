package dialect_test

import (
	"fmt"
	"log"
	"strings"

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
	opts, err := d.ScanOptions()
	if err != nil {
		log.Fatal(err)
	}
	for rec, err := range transcript.Scan(r, size, opts) {
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
