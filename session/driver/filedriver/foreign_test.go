package filedriver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/filedriver"
	"github.com/convolog/convolog/transcript/filelog"
)

// Whatever sessions.json has become, the sessions are all there, before the
// index is written again and after, and an index of somebody else is kept.
func TestAnyIndex(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	for i := range 2 {
		create(t, d, fmt.Sprint("s", i), fmt.Sprint("k", i))
	}
	must(t, d.Close())
	path := filepath.Join(dir, "agents/main/sessions.json")
	journal := filepath.Join(dir, "agents/main/sessions.journal")
	whole, err := os.ReadFile(path)
	must(t, err)
	lines, err := os.ReadFile(journal)
	must(t, err)

	var doc map[string]any
	must(t, json.Unmarshal(whole, &doc))
	sessions, ok := doc["sessions"].(map[string]any)
	if !ok {
		t.Fatalf("%s", whole)
	}
	pretty := func() string {
		text, err := json.MarshalIndent(doc, "", "\t")
		must(t, err)
		return string(text)
	}
	texts := map[string]string{"indented": pretty()}
	doc["other"] = []int{1}
	for _, row := range sessions {
		row, ok := row.(map[string]any)
		if !ok {
			t.Fatal(row)
		}
		row["state"], row["nested"] = "running", map[string]any{"size": 7}
	}
	texts["more members"] = pretty()
	if row, ok := sessions["s1"].(map[string]any); ok {
		row["size"] = "large"
	}
	delete(sessions, "s0")
	sessions["ghost"] = map[string]any{"id": "ghost", "key": "k0", "agentId": "main", "gen": 99}
	texts["wrong rows"] = pretty()
	delete(doc, "generation")
	texts["no generation"] = pretty()
	doc["sessions"] = map[string]any{"s0": map[string]any{}}
	texts["empty rows"] = pretty()

	set := map[string]string{ // aside, as no index of this shape
		"an array": "[1,2]", "another shape": `{"main:cli:user":{"session_id":"x"}}`, "another version": `{"version":2,"sessions":{}}`,
		"nothing": "", "NULs": strings.Repeat("\x00", 100), "text": "hello", "null": "null",
	}
	for i := range whole {
		set[fmt.Sprint("cut after ", i)] = string(whole[:i])
	}
	check := func(name, text string, aside bool, rounds int) {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		must(t, os.WriteFile(journal, lines, 0o600))
		for round := range rounds {
			d := open(t, dir, &filedriver.Options{Sync: filelog.SyncNever, ReadOnly: round == 0})
			for i := range 2 {
				if row, err := d.Current(t.Context(), "main", fmt.Sprint("k", i)); err != nil || row.ID != fmt.Sprint("s", i) || row.Gen != 1 {
					t.Errorf("%s: k%d has %+v, %v", name, i, row, err)
				}
			}
			if rows, err := d.List(t.Context(), "main", driver.Place{}, 0); err != nil || len(rows) != 2 {
				t.Errorf("%s: %d sessions, %v", name, len(rows), err)
			}
			must(t, d.Close())
		}
		kept, err := filepath.Glob(path + ".corrupt-*")
		must(t, err)
		if aside != (len(kept) == 1) {
			t.Errorf("%s: set aside %v", name, kept)
		}
		for _, name := range kept {
			if data, err := os.ReadFile(name); err != nil || string(data) != text {
				t.Errorf("%s: kept %q, %v", name, data, err)
			}
			must(t, os.Remove(name))
		}
		now, err := os.ReadFile(path)
		must(t, err)
		if !bytes.HasPrefix(now, []byte(`{"version":1,"generation":`)) || bytes.Count(now, []byte("\n")) != 4 {
			t.Errorf("%s: the index is\n%s", name, now)
		}
	}
	for name, text := range texts {
		check(name, text, false, 3)
	}
	for name, text := range set {
		// Without its line end it is the same document.
		check(name, text, text != strings.TrimSpace(string(whole)), 2)
	}
}
