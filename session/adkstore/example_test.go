package adkstore_test

import (
	"context"
	"fmt"
	"iter"
	"log"
	"os"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/genai"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/adkstore"
)

// scripted is a model that calls a tool for a question and then answers it.
type scripted struct{}

func (scripted) Name() string { return "scripted" }

func (scripted) GenerateContent(_ context.Context, req *model.LLMRequest, _ bool) iter.Seq2[*model.LLMResponse, error] {
	last := req.Contents[len(req.Contents)-1].Parts[0]
	content := genai.NewContentFromFunctionCall("find", map[string]any{"city": last.Text}, genai.RoleModel)
	if r := last.FunctionResponse; r != nil {
		content = genai.NewContentFromText(fmt.Sprintf("It is at %v. I was shown %d contents.", r.Response["place"], len(req.Contents)), genai.RoleModel)
	}
	return func(yield func(*model.LLMResponse, error) bool) { yield(&model.LLMResponse{Content: content}, nil) }
}

// An agent of ADK continues its session after a restart.
func Example() {
	dir, err := os.MkdirTemp("", "adk")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for _, city := range []string{"Porto", "Turin"} { // each time with a store that is opened anew
		if err := ask(context.Background(), dir, city); err != nil {
			log.Fatal(err)
		}
	}

	// Output:
	// It is at 41.15 N. I was shown 3 contents.
	// Porto: 1 cities, user: ann
	// It is at 45.07 N. I was shown 7 contents.
	// Porto: 2 cities, user: ann
}

type query struct {
	City string `json:"city"`
}

type answer struct {
	Place string `json:"place"`
}

// find is a tool, which counts the cities of a user.
func find(ctx agent.Context, q query) (answer, error) {
	n := 0.0
	if known, err := ctx.State().Get("user:cities"); err == nil {
		n, _ = known.(float64)
	}
	place := map[string]string{"Porto": "41.15 N", "Turin": "45.07 N"}[q.City]
	return answer{place}, ctx.State().Set("user:cities", n+1)
}

func ask(ctx context.Context, dir, city string) error {
	finder, err := functiontool.New(functiontool.Config{Name: "find", Description: "finds a city"}, find)
	if err != nil {
		return err
	}
	guide, err := llmagent.New(llmagent.Config{Name: "guide", Model: scripted{}, Tools: []tool.Tool{finder}})
	if err != nil {
		return err
	}

	store, err := session.Open(dir, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	r, err := runner.New(runner.Config{
		AppName: "travel", Agent: guide, SessionService: adkstore.New(store), AutoCreateSession: true,
	})
	if err != nil {
		return err
	}

	for event, err := range r.Run(ctx, "ann", "trip", genai.NewContentFromText(city, genai.RoleUser), agent.RunConfig{}) {
		if err != nil {
			return err
		}
		if event.IsFinalResponse() {
			fmt.Println(event.Content.Parts[0].Text)
		}
	}

	infos, err := store.List(ctx, &session.ListOptions{Key: session.Key{Agent: "travel", Channel: "adk"}})
	if err != nil {
		return err
	}
	user, err := store.List(ctx, &session.ListOptions{Key: session.Key{Agent: "travel", Channel: "adk-state"}})
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s cities, user: %s\n", infos[0].Title, user[0].Values["adk:user:cities"], infos[0].Owner)
	return nil
}
