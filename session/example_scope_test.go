package session_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// Serve several users: a scope for each request shows the sessions of its user and
// no others.
func ExampleStore_Scope() {
	ctx := context.Background()
	store := session.OpenDriver(memdriver.New(nil), nil)
	defer store.Close()
	var refs []session.Ref
	for _, user := range []string{"ada", "bert"} {
		scope, err := store.Scope(user)
		if err != nil {
			log.Fatal(err)
		}
		s, err := scope.Load(ctx, session.Key{Agent: "main", Channel: "web", Peer: user})
		if err != nil {
			log.Fatal(err)
		}
		if _, err := s.Append(ctx, transcript.UserText("I am "+user+".")); err != nil {
			log.Fatal(err)
		}
		refs = append(refs, s.Ref())
	}

	ada, err := store.Scope("ada")
	if err != nil {
		log.Fatal(err)
	}
	infos, err := ada.List(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, info := range infos {
		fmt.Println(info.Owner, info.Key)
	}
	_, err = ada.Get(ctx, refs[1]) // bert's
	fmt.Println(errors.Is(err, fs.ErrNotExist))
	// Output:
	// ada main:web:ada
	// true
}
