package exchange_test

import (
	"context"
	"fmt"
	"log"
	"testing/fstest"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// A session of another program becomes a session of the store. Importing it
// again appends new records: here none.
func ExampleImport() {
	ctx := context.Background()
	files := fstest.MapFS{"transcripts/main_cli_ann_00aa11bb22cc.jsonl": {Data: []byte(`{"type":"session","id":"00aa11bb22cc","key":"main:cli:ann","created":"2026-02-24T10:00:00Z"}
{"type":"user","content":"Where were we?","ts":"2026-02-24T10:00:01Z"}
{"type":"assistant","content":"At the imports.","ts":"2026-02-24T10:00:02Z"}
`)}}
	folder, err := dialect.ReadFolder(files) // os.DirFS(dir) of a real one
	if err != nil {
		log.Fatal(err)
	}
	store := session.OpenDriver(memdriver.New(nil), nil)
	for range 2 {
		report, err := exchange.Import(ctx, store, folder.Sessions(), nil)
		if err != nil {
			log.Fatal(err)
		}
		for _, im := range report {
			fmt.Println(im.Key, im.Created, im.Appended, "of", im.Records)
		}
	}
	s, err := store.Load(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "ann"})
	if err != nil {
		log.Fatal(err)
	}
	info, err := s.Info(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Turns, "turn")
	// Output:
	// main:cli:ann true 2 of 2
	// main:cli:ann false 0 of 2
	// 1 turn
}

// A folder is copied to another store, and again when it has grown.
func ExampleCopy() {
	ctx := context.Background()
	folder, database := session.OpenDriver(memdriver.New(nil), nil), session.OpenDriver(memdriver.New(nil), nil)
	s, err := folder.Load(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	if err != nil {
		log.Fatal(err)
	}
	for _, text := range []string{"Hello.", "Hello again."} {
		if _, err := s.Append(ctx, transcript.UserText(text)); err != nil {
			log.Fatal(err)
		}
		report, err := exchange.Copy(ctx, folder, database, nil)
		fmt.Println(report.Created, "new sessions,", report.Lines, "new lines,", err)
	}
	// Output:
	// 1 new sessions, 2 new lines, <nil>
	// 0 new sessions, 1 new lines, <nil>
}
