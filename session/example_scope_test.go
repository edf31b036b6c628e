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

// Serve conversations by ID: a scope for each request shows the sessions of its user and
// no others.
func ExampleStore_Scope() {
	ctx := context.Background()
	store := session.OpenDriver(memdriver.New(nil), nil)
	defer store.Close()
	ids := map[string]string{} // kept by the clients
	for _, user := range []string{"ada", "bert"} {
		scope, err := store.Scope(user)
		if err != nil {
			log.Fatal(err)
		}
		s, err := scope.Create(ctx, session.Key{}, &session.CreateOptions{Title: "About " + user})
		if err != nil {
			log.Fatal(err)
		}
		if _, err := s.Append(ctx, transcript.UserText("I am "+user+".")); err != nil {
			log.Fatal(err)
		}
		ids[user] = s.Ref().ID
	}

	ada, err := store.Scope("ada")
	if err != nil {
		log.Fatal(err)
	}
	s, err := ada.Get(ctx, session.Ref{ID: ids["ada"]})
	if err != nil {
		log.Fatal(err)
	}
	h, err := s.History(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Messages[0].Text())
	infos, err := ada.List(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, info := range infos {
		fmt.Println(info.Owner, info.Title)
	}
	_, err = ada.Get(ctx, session.Ref{ID: ids["bert"]})
	fmt.Println(errors.Is(err, fs.ErrNotExist))
	// Output:
	// I am ada.
	// ada About ada
	// true
}
