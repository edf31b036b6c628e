package turn_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/turn"
)

// Values of an owner, and of the store itself, are values of a session that exists for them.
// The same key names one such session for each owner, and one without an owner.
func ExampleSetValue_owner() {
	ctx := context.Background()
	store := session.OpenDriver(memdriver.New(nil), nil)
	defer store.Close()
	ann, err := store.Scope("ann")
	if err != nil {
		log.Fatal(err)
	}

	settings := session.Key{Agent: "settings", Channel: "values", Peer: "all"}
	for _, place := range []struct {
		store *session.Store
		value string
	}{{store, `"en"`}, {ann, `"pt"`}} {
		s, err := place.store.Load(ctx, settings)
		if err != nil {
			log.Fatal(err)
		}
		if _, err := turn.SetValue(ctx, s, "language", json.RawMessage(place.value), ""); err != nil {
			log.Fatal(err)
		}
	}

	for _, st := range []*session.Store{store, ann} {
		s, err := st.Load(ctx, settings)
		if err != nil {
			log.Fatal(err)
		}
		values, err := turn.Values(ctx, s)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%q: %s\n", st.Owner(), values[0].Value)
	}

	// Output:
	// "": "en"
	// "ann": "pt"
}
