package erase_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/transcript"
)

// Forget a person: the plan lists the places, the report is the receipt.
func Example() {
	ctx := context.Background()
	store := session.OpenDriver(memdriver.New(nil), nil)
	defer store.Close()
	for _, owner := range []string{"ada", "bert"} {
		s, err := store.Create(ctx, session.Key{Agent: "main", Channel: "cli", Peer: owner}, &session.CreateOptions{Owner: owner})
		if err != nil {
			log.Fatal(err)
		}
		if _, err := s.Append(ctx, transcript.UserText("I am "+owner+"."), transcript.AssistantText("Hello!")); err != nil {
			log.Fatal(err)
		}
	}

	plan, err := erase.Preview(ctx, store, erase.Erasure{Owner: "ada"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("to erase:", len(plan.Places), plan.Places[0].Kind)
	report, err := erase.Run(ctx, store, plan)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("erased:", len(report.Places), "out of reach:", strings.SplitN(report.Beyond[0], ",", 2)[0])
	left, err := store.List(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, info := range left {
		fmt.Println("left:", info.Owner)
	}
	// Output:
	// to erase: 1 transcript
	// erased: 1 out of reach: exports
	// left: bert
}
