package peerbench

import (
	"context"
	"strings"
)

// A Message is one message of a conversation. Messages with even indexes are from the
// user, the others from the model.
type Message struct {
	Role string `json:"role"`
	Text string `json:"text"`
}

// A Level names a failure that an acknowledged message survives.
type Level string

// The levels.
const (
	PowerCut Level = "powercut" // a power cut
	Kill     Level = "kill"     // the end of the process, but not of the machine
)

// A Peer keeps conversations. It is safe for several goroutines on different
// conversations.
type Peer interface {
	// Append adds messages to a conversation, as one unit if the peer supports that,
	// and otherwise one after the other.
	Append(ctx context.Context, conversation string, msgs []Message) error

	// Load returns the messages of a conversation, decoded.
	Load(ctx context.Context, conversation string) ([]Message, error)

	Close() error
}

// An Opener opens a peer with its data in a folder.
type Opener func(dir string, level Level) (Peer, error)

// Conversation returns n messages of size bytes each, alternately from the user and the
// model.
func Conversation(n, size int) []Message {
	const s = "The build fails in \"store.go\": the lock is taken twice, once in Load and once in Append.\nMove it, then run the tests again. "
	text := strings.Repeat(s, size/len(s)+1)[:size]
	msgs := make([]Message, n)
	for i := range msgs {
		msgs[i] = Message{Role: "user", Text: text}
		if i%2 == 1 {
			msgs[i].Role = "assistant"
		}
	}
	return msgs
}
