// Package frameworks measures the session stores of agent frameworks as package
// peerbench does with storage engines.
//
//	go test -bench .
package frameworks

import (
	"context"
	"database/sql"
	"path/filepath"

	_ "github.com/mattn/go-sqlite3" // the driver "sqlite3"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/memory/sqlite3"

	"github.com/convolog/convolog/internal/peerbench"
)

// langchain is the chat history of langchaingo.
type langchain struct{ db *sql.DB }

// OpenLangchain opens the SQLite chat history of langchaingo.
func OpenLangchain(dir string, level peerbench.Level) (peerbench.Peer, error) {
	db, err := sql.Open("sqlite3", "file:"+filepath.ToSlash(filepath.Join(dir, "chat.db"))+
		"?_journal_mode=WAL&_synchronous="+synchronous(level))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // SQLite has one writer; more would only fail with SQLITE_BUSY
	return langchain{db}, nil
}

func synchronous(level peerbench.Level) string {
	if level == peerbench.Kill {
		return "NORMAL"
	}
	return "FULL"
}

func (p langchain) history(conversation string) *sqlite3.SqliteChatMessageHistory {
	return sqlite3.NewSqliteChatMessageHistory(sqlite3.WithDB(p.db), sqlite3.WithSession(conversation))
}

func (p langchain) Append(ctx context.Context, conversation string, msgs []peerbench.Message) error {
	h := p.history(conversation)
	for _, m := range msgs {
		add := h.AddUserMessage
		if m.Role == "assistant" {
			add = h.AddAIMessage
		}
		if err := add(ctx, m.Text); err != nil {
			return err
		}
	}
	return nil
}

func (p langchain) Load(ctx context.Context, conversation string) ([]peerbench.Message, error) {
	said, err := p.history(conversation).Messages(ctx)
	msgs := make([]peerbench.Message, len(said))
	for i, m := range said {
		msgs[i] = peerbench.Message{Role: "user", Text: m.GetContent()}
		if m.GetType() == llms.ChatMessageTypeAI {
			msgs[i].Role = "assistant"
		}
	}
	return msgs, err
}

func (p langchain) Close() error { return p.db.Close() }
