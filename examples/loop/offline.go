package main

import (
	"encoding/json"
	"strings"

	"github.com/convolog/convolog/guard/guardtest"
)

// offline is a model that needs no network. It echoes, and what looks like the
// name of a file it reads; it refuses what the real service would refuse.
func offline(window int) *guardtest.Model {
	return &guardtest.Model{Window: window, Answer: func(r guardtest.Request) guardtest.Answer {
		for word := range strings.FieldsSeq(r.UserText()) {
			if name := strings.TrimRight(word, ".,;:?!"); strings.Contains(name, ".") {
				if input, err := json.Marshal(map[string]string{"path": name}); err == nil {
					return guardtest.Call(guardtest.Tool("read_file", string(input)))
				}
			}
		}
		return guardtest.Echo(r)
	}}
}
