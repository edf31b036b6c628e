package frameworks

import (
	"context"
	"path/filepath"
	"sync"

	"github.com/glebarez/sqlite"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/session/database"
	"google.golang.org/genai"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/convolog/convolog/internal/peerbench"
)

// adk is the session service of Google's ADK on a database.
type adk struct {
	service session.Service
	db      *gorm.DB

	mu       sync.Mutex // guards sessions
	sessions map[string]session.Session
}

// OpenADK opens the session service of Google's ADK on SQLite.
func OpenADK(dir string, level peerbench.Level) (peerbench.Peer, error) {
	dialector := sqlite.Open("file:" + filepath.ToSlash(filepath.Join(dir, "adk.db")) +
		"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)&_pragma=synchronous(" + synchronous(level) + ")")
	db, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, err
	}
	conns, err := db.DB()
	if err != nil {
		return nil, err
	}
	conns.SetMaxOpenConns(1) // SQLite has one writer; more would only fail with SQLITE_BUSY
	service, err := database.NewSessionService(sqlite.Dialector{Conn: conns}, &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, err
	}
	if err := database.AutoMigrate(service); err != nil {
		return nil, err
	}
	return &adk{service: service, db: db, sessions: map[string]session.Session{}}, nil
}

// session returns the session of a conversation, which an application keeps.
func (p *adk) session(ctx context.Context, conversation string) (session.Session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.sessions[conversation]; s != nil {
		return s, nil
	}
	got, err := p.service.Get(ctx, &session.GetRequest{AppName: "bench", UserID: "user", SessionID: conversation})
	if err == nil {
		p.sessions[conversation] = got.Session
		return got.Session, nil
	}
	made, err := p.service.Create(ctx, &session.CreateRequest{AppName: "bench", UserID: "user", SessionID: conversation})
	if err != nil {
		return nil, err
	}
	p.sessions[conversation] = made.Session
	return made.Session, nil
}

func (p *adk) Append(ctx context.Context, conversation string, msgs []peerbench.Message) error {
	s, err := p.session(ctx, conversation)
	if err != nil {
		return err
	}
	for _, m := range msgs {
		role := genai.Role(genai.RoleUser)
		if m.Role == "assistant" {
			role = genai.RoleModel
		}
		e := session.NewEvent(ctx, "invocation")
		e.Author = m.Role
		e.Content = genai.NewContentFromText(m.Text, role)
		if err := p.service.AppendEvent(ctx, s, e); err != nil {
			return err
		}
	}
	return nil
}

func (p *adk) Load(ctx context.Context, conversation string) ([]peerbench.Message, error) {
	got, err := p.service.Get(ctx, &session.GetRequest{AppName: "bench", UserID: "user", SessionID: conversation})
	if err != nil {
		return nil, err
	}
	var msgs []peerbench.Message
	for e := range got.Session.Events().All() {
		msgs = append(msgs, peerbench.Message{Role: e.Author, Text: e.Content.Parts[0].Text})
	}
	return msgs, nil
}

func (p *adk) Close() error {
	conns, err := p.db.DB()
	if err != nil {
		return err
	}
	return conns.Close()
}
