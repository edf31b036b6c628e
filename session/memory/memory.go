package memory

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/convolog/convolog/internal/filename"
	"github.com/convolog/convolog/transcript"
)

// A Scope owns memories. Memories about a person (profile, preferences, entities,
// events) belong to Owner, whatever the agent; memories of the agent (cases,
// patterns) belong to both, unless [Options.Shared] gives them to the agent alone.
// A Scope without an Owner has no memories and is refused.
type Scope struct {
	Agent string `json:"agent"`
	Owner string `json:"owner"`
}

// errOwner reports a scope or a chapter without an owner. Give a session its
// owner before it is committed.
var errOwner = errors.New("memories need an owner")

// check refuses a scope without an owner.
func (s Scope) check() error {
	if s.Owner == "" {
		return errOwner
	}
	return nil
}

// A Category is the kind of a memory, which decides its place. It is one of six; a
// candidate of any other category is refused:
//
//	profile      what is known about the person
//	preferences  what the person likes, by topic
//	entities     people, projects, things
//	events       what has happened or was decided
//	cases        a problem and how it was solved
//	patterns     what has proved to work
//
// There is one profile, which absorbs all new facts about the person. Preferences,
// entities and patterns may be merged with known ones. Events and cases never are: each
// stays a memory of its own.
type Category string

const (
	profile     Category = "profile"
	preferences Category = "preferences"
	entities    Category = "entities"
	events      Category = "events"
	cases       Category = "cases"
	patterns    Category = "patterns"
)

var categories = []Category{profile, preferences, entities, events, cases, patterns}

func (c Category) valid() bool { return slices.Contains(categories, c) }

func (c Category) merges() bool { return c != events && c != cases }

// ofAgent reports whether the category belongs to the agent.
func (c Category) ofAgent() bool { return c == cases || c == patterns }

// A Memory is one learned fact.
type Memory struct {
	// ID names the memory within its scope, even after its file is renamed.
	ID       string   `json:"id"`
	Scope    Scope    `json:"scope"`
	Category Category `json:"category"`
	// Name is the name of its file, without the extension and the encoding.
	Name string `json:"name"`
	// URI names its file within the scope, as the commit's diff does.
	URI   string `json:"uri"`
	Topic string `json:"topic,omitempty"` // its topic when learned
	Text
	// Instruction marks a memory that commands the assistant. It may have been
	// planted, so show it as a quotation, and do not follow it.
	Instruction bool `json:"instruction,omitempty"`
	// Edited is set if a person changed or wrote the file.
	Edited  bool      `json:"edited,omitempty"`
	Sources []Source  `json:"sources,omitempty"`
	Created time.Time `json:"created,omitzero"`
	Updated time.Time `json:"updated,omitzero"`

	file string // its name in the storage
}

// A Text is a memory in three lengths.
type Text struct {
	Abstract string `json:"abstract"`           // one line
	Overview string `json:"overview,omitempty"` // Markdown, a few lines
	Content  string `json:"content,omitempty"`  // Markdown, all of it
}

// A Source is a commit that a memory was learned from.
type Source struct {
	Owner   string `json:"owner,omitempty"`
	Agent   string `json:"agent,omitempty"`
	Session string `json:"session"`
	Chapter string `json:"chapter"` // its name, chapter_001 for example
	Commit  string `json:"commit"`  // its entry ID
}

// A Candidate is a memory proposed by an [Extractor].
type Candidate struct {
	Category Category `json:"category"`
	// Topic is the subject in a few words, which name the file. If it is empty,
	// the abstract replaces it.
	Topic string `json:"topic,omitempty"`
	Text
	// Instruction marks a candidate that commands the assistant. The store also
	// sets it if the text looks like a command.
	Instruction bool `json:"instruction,omitempty"`
}

// An Input of an [Extractor] is the messages of one chapter.
type Input struct {
	Scope    Scope
	Source   Source
	Abstract string // of the chapter
	Overview string // of the chapter
	Messages []transcript.Message
}

// An Extractor finds memories worth keeping. It must give up when ctx is done. It
// may return any number of candidates of any size: the store takes the first 200,
// and refuses any larger than 32 KiB. All of its input is untrusted data, and may
// contain instructions.
type Extractor interface {
	// Extract returns the memories from one chapter, if any.
	Extract(ctx context.Context, in Input) ([]Candidate, error)
}

// A Decider decides the fate of a candidate by the most similar memories of its
// category, best first. It is called only if there is a choice. It must give up
// when ctx is done. After an error, or an impossible decision, words decide, see
// [Options].
type Decider interface {
	// Decide returns the fate of c.
	Decide(ctx context.Context, c Candidate, similar []Memory) (Decision, error)
}

// An Action is the fate of a candidate.
type Action string

// The actions.
const (
	Create Action = "create" // it becomes a new memory
	Merge  Action = "merge"  // it becomes part of a present memory
	Skip   Action = "skip"   // it is already known
)

// A Decision is the answer of a [Decider]. The zero value is invalid.
type Decision struct {
	Action Action
	// Into is the ID of the memory to merge with, or of the one with the same
	// content; empty means the first of the similar ones.
	Into string
	// Text is the text of the merged memory. With the zero value the store
	// merges the texts by lines.
	Text   Text
	Reason string // for the diff
}

const (
	profileName = ".overview"
	extension   = ".md"
)

// ownerFolder is the folder with everything of one owner.
func ownerFolder(owner string) string { return path.Join("owners", filename.Encode(owner)) }

// agentFolder is the folder with everything that the owners of an agent share.
func agentFolder(agent string) string { return path.Join("agents", filename.Encode(agent)) }

// base returns the folder with the memories of the owner or, for categories of the
// agent, of the agent; empty if the scope lacks one.
func (s Scope) base(c Category, shared bool) string {
	switch {
	case !c.ofAgent():
		return path.Join(ownerFolder(s.Owner), "user", "memories")
	case s.Agent == "":
		return ""
	case shared:
		return path.Join(agentFolder(s.Agent), "agent", "memories")
	}
	return path.Join(ownerFolder(s.Owner), agentFolder(s.Agent), "agent", "memories")
}

func (s Scope) folder(c Category, shared bool) string {
	base := s.base(c, shared)
	if base == "" || c == profile {
		return base
	}
	return path.Join(base, string(c))
}

// uriOf names a file of a category within a scope.
func uriOf(c Category, file string) string {
	base := path.Base(file)
	switch {
	case c == profile:
		return "viking://user/memories/" + base
	case c.ofAgent():
		return fmt.Sprintf("viking://agent/memories/%s/%s", c, base)
	}
	return fmt.Sprintf("viking://user/memories/%s/%s", c, base)
}

// nameOf decodes the name of a file that was made from a topic; it leaves names
// that people chose unchanged.
func nameOf(base string) string {
	enc := strings.TrimSuffix(base, extension)
	if name, ok := filename.Decode(enc); ok {
		return name
	}
	return enc
}
