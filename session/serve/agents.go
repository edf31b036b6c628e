package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// The routes of managed agents.
var agentsRoutes = []Route{
	{Surface: Agents, Method: "POST", Path: "/v1/sessions", Summary: "Create a session.", do: (*request).agentsCreate},
	{Surface: Agents, Method: "GET", Path: "/v1/sessions", Summary: "List sessions.", do: (*request).agentsList},
	{Surface: Agents, Method: "GET", Path: "/v1/sessions/{id}", Summary: "Describe a session.", do: (*request).agentsGet},
	{Surface: Agents, Method: "POST", Path: "/v1/sessions/{id}", Summary: "Change title and metadata.", do: (*request).agentsUpdate},
	{Surface: Agents, Method: "DELETE", Path: "/v1/sessions/{id}", Summary: "Delete a session.", do: (*request).agentsDelete},
	{Surface: Agents, Method: "POST", Path: "/v1/sessions/{id}/archive", Summary: "Archive a session.", do: (*request).agentsArchive},
	{Surface: Agents, Method: "GET", Path: "/v1/sessions/{id}/events", Summary: "List events.", do: (*request).agentsEvents},
	{Surface: Agents, Method: "POST", Path: "/v1/sessions/{id}/events", Summary: "Send events.", do: (*request).agentsSend},
	{Surface: Agents, Method: "GET", Path: "/v1/sessions/{id}/events/stream", Summary: "Stream events.", do: (*request).agentsStream},
}

// agentsProblem is a problem as Anthropic's API says it.
func agentsProblem(p *Problem) object {
	kind := "invalid_request_error"
	switch p.Status {
	case http.StatusUnauthorized:
		kind = "authentication_error"
	case http.StatusForbidden:
		kind = "permission_error"
	case http.StatusNotFound:
		kind = "not_found_error"
	case http.StatusRequestEntityTooLarge:
		kind = "request_too_large"
	case http.StatusGatewayTimeout:
		kind = "timeout_error"
	case http.StatusServiceUnavailable:
		kind = "overloaded_error"
	case http.StatusInternalServerError, http.StatusNotImplemented:
		kind = "api_error"
	}
	message := p.Title
	if p.Detail != "" {
		message += ": " + p.Detail
	}
	return object{"type": "error", "error": object{"type": kind, "message": message}}
}

// agentsID is the ID of a session: with its agent if that is not Options.Agent, as
// the routes do not name it.
func (sv *Server) agentsID(ref session.Ref) string {
	if ref.Agent == sv.opts.Agent {
		return ref.ID
	}
	return ref.Agent + ":" + ref.ID
}

// agentsSession returns the session that the path names.
func (q *request) agentsSession() (*session.Session, error) {
	agent, id := q.sv.opts.Agent, q.PathValue("id")
	if i := strings.LastIndexByte(id, ':'); i >= 0 {
		agent, id = id[:i], id[i+1:]
	}
	return q.session(q.Context(), agent, id)
}

// The statuses of a session.
const (
	statusIdle       = "idle"
	statusRunning    = "running"
	statusTerminated = "terminated"
)

// agentsStatus says whether a session is being answered, by any server.
func agentsStatus(ctx context.Context, s *session.Session) (string, error) {
	info, err := s.Info(ctx)
	if err != nil || info.State == session.Archived {
		return statusTerminated, err
	}
	m, err := agentsNow(ctx, s)
	if err != nil {
		return "", err
	}
	pending, err := s.Pending(ctx)
	if err != nil {
		return "", err
	}
	if m.status == sessionRunning || len(pending.Queued) > 0 && len(m.held) == 0 {
		return statusRunning, nil
	}
	return statusIdle, nil
}

// agentsNow returns what the entries of a session have come to.
func agentsNow(ctx context.Context, s *session.Session) (*agentEvents, error) {
	from, err := beginning(ctx, s, "")
	if err != nil {
		return nil, err
	}
	m := newAgentEvents()
	for e, err := range s.Entries(ctx, from) {
		if err != nil {
			return nil, err
		}
		m.add(e)
	}
	return m, nil
}

// listStatus is the status of a session in a list, which does not read transcripts:
// that a session is running is known of this server alone.
func (sv *Server) listStatus(i session.Info) string {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	switch {
	case i.State == session.Archived:
		return statusTerminated
	case sv.answers[i.Ref] != nil:
		return statusRunning
	}
	return statusIdle
}

// agentsInfo describes a session. Members that the library has nothing for are empty.
func (sv *Server) agentsInfo(i session.Info, status string) object {
	var sum driver.Usage
	for _, u := range i.Usage {
		sum = sum.Plus(u)
	}
	none := []any{}
	out := object{
		"id": sv.agentsID(i.Ref), "type": "session", "status": status, "title": i.Title, "metadata": metadataOf(i.Labels),
		"created_at": i.CreatedAt.UTC(), "updated_at": i.UpdatedAt.UTC(), "archived_at": nil,
		"agent": object{
			"id": i.Agent, "type": "agent", "name": i.Agent, "version": 1, "description": "", "system": "",
			"execution_identity": object{"type": "service_account"}, "model": object{"id": ""}, "multiagent": nil,
			"mcp_servers": none, "skills": none, "tools": none,
		},
		"usage": object{
			"input_tokens": sum.Input, "output_tokens": sum.Output, "cache_read_input_tokens": sum.CacheRead,
			"cache_creation": object{"ephemeral_5m_input_tokens": sum.CacheWrite, "ephemeral_1h_input_tokens": 0},
		},
		"environment_id": "", "deployment_id": nil, "budget": nil, "stats": object{},
		"outcome_evaluations": none, "resources": none, "vault_ids": none,
	}
	if i.State == session.Archived {
		out["archived_at"] = i.UpdatedAt.UTC()
	}
	return out
}

// metadataOf returns the labels of the form name=value, which metadata is kept as.
func metadataOf(labels []string) map[string]string {
	metadata := map[string]string{}
	for _, l := range labels {
		if name, value, ok := strings.Cut(l, "="); ok {
			metadata[name] = value
		}
	}
	return metadata
}

// The limits of metadata, as Anthropic has them.
const (
	maxMetadata      = 16
	maxMetadataName  = 64
	maxMetadataValue = 512
)

// withMetadata returns labels with metadata changed: nil removes a name.
func withMetadata(labels []string, change map[string]*string) ([]string, error) {
	for name, value := range change {
		if name == "" || len(name) > maxMetadataName || strings.Contains(name, "=") || value != nil && len(*value) > maxMetadataValue {
			return nil, invalid("metadata has names of 1 to 64 bytes without =, and values of up to 512 bytes")
		}
	}
	out := slices.DeleteFunc(slices.Clone(labels), func(l string) bool {
		name, _, ok := strings.Cut(l, "=")
		_, changed := change[name]
		return ok && changed
	})
	for name, value := range change {
		if value != nil {
			out = append(out, name+"="+*value)
		}
	}
	if len(metadataOf(out)) > maxMetadata {
		return nil, invalid("metadata has up to 16 pairs")
	}
	slices.Sort(out)
	return append([]string{}, out...), nil
}

// agentsBody is what creates or changes a session.
type agentsBody struct {
	Agent    json.RawMessage    `json:"agent"`
	Title    *string            `json:"title"`
	Metadata map[string]*string `json:"metadata"`
	Initial  []agentsInput      `json:"initial_events"`

	// The library has nothing for these. To leave out a limit or a file that somebody
	// relies on would be worse than to refuse it.
	Budget    json.RawMessage   `json:"budget"`
	Resources []json.RawMessage `json:"resources"`
	Vaults    []json.RawMessage `json:"vault_ids"`
}

func isSet(member json.RawMessage) bool {
	return len(member) > 0 && !bytes.Equal(member, []byte("null"))
}

// agentsBody decodes the body.
func (q *request) agentsBody() (b agentsBody, err error) {
	if err := q.body(&b); err != nil {
		return b, err
	}
	if isSet(b.Budget) || len(b.Resources) > 0 || len(b.Vaults) > 0 {
		return b, invalid("this server has no budget, resources and vault_ids")
	}
	return b, nil
}

// name returns the agent that a body names.
func (b agentsBody) name(other string) (string, error) {
	if !isSet(b.Agent) {
		return other, nil
	}
	var name string
	if json.Unmarshal(b.Agent, &name) == nil {
		return name, nil
	}
	var ref struct{ ID, Type string }
	if json.Unmarshal(b.Agent, &ref) != nil || ref.Type != "agent" || ref.ID == "" {
		return "", invalid("the agent is neither an ID nor {type: agent, id}: overrides are not for this server")
	}
	return ref.ID, nil
}

func (q *request) agentsCreate() error {
	body, err := q.agentsBody()
	if err != nil {
		return err
	}
	agent, err := body.name(q.sv.opts.Agent)
	if err == nil {
		agent, err = q.agent(agent)
	}
	if err != nil {
		return err
	}
	labels, err := withMetadata(nil, body.Metadata)
	if err != nil {
		return err
	}
	todo, err := q.plan(body.Initial)
	if err != nil {
		return err
	}
	id := q.newID(agent)
	s, err := q.store.Create(q.Context(), session.Key{Agent: agent, Channel: "http", Peer: id}, &session.CreateOptions{
		ID: id, Owner: q.who.Owner, Title: *or(body.Title, new(string)), Labels: labels,
	})
	if errors.Is(err, fs.ErrExist) && q.Header.Get("Idempotency-Key") != "" { // the request is made again
		s, err = q.session(q.Context(), agent, id)
	}
	if err != nil {
		return err
	}
	if _, err := q.carryOut(s, todo); err != nil {
		return err
	}
	return q.agentsAnswer(s)
}

// agentsAnswer answers with a session.
func (q *request) agentsAnswer(s *session.Session) error {
	status, err := agentsStatus(q.Context(), s)
	if err != nil {
		return err
	}
	info, err := s.Info(q.Context())
	if err != nil {
		return err
	}
	q.json(http.StatusOK, q.sv.agentsInfo(info, status))
	return nil
}

func (q *request) agentsGet() error {
	s, err := q.agentsSession()
	if err != nil {
		return err
	}
	return q.agentsAnswer(s)
}

func (q *request) agentsUpdate() error {
	s, err := q.agentsSession()
	if err != nil {
		return err
	}
	body, err := q.agentsBody()
	if err != nil {
		return err
	}
	if isSet(body.Agent) || len(body.Initial) > 0 {
		return invalid("only title and metadata can be changed")
	}
	if err := q.describe(s, body); err != nil {
		return err
	}
	return q.agentsAnswer(s)
}

// describe sets title and metadata. Of two requests for metadata at the same time,
// the second changes what the first has left, on this server.
func (q *request) describe(s *session.Session, body agentsBody) (err error) {
	meta := transcript.Meta{Title: body.Title}
	if len(body.Metadata) > 0 {
		q.sv.describing.Lock()
		defer q.sv.describing.Unlock()
		info, err := s.Info(q.Context())
		if err == nil {
			meta.Labels, err = withMetadata(info.Labels, body.Metadata)
		}
		if err != nil {
			return err
		}
	}
	if meta.Title == nil && meta.Labels == nil {
		return nil
	}
	return s.SetMeta(q.Context(), meta)
}

func (q *request) agentsDelete() error {
	s, err := q.agentsSession()
	if err != nil {
		return err
	}
	if err := q.store.Delete(q.Context(), s.Ref()); err != nil {
		return err
	}
	q.json(http.StatusOK, object{"id": q.sv.agentsID(s.Ref()), "type": "session_deleted"})
	return nil
}

// agentsArchive archives a session that is not running. The turn whose end a client
// has just seen may still hold the lock.
func (q *request) agentsArchive() error {
	s, err := q.agentsSession()
	if err != nil {
		return err
	}
	status, err := agentsStatus(q.Context(), s)
	if err != nil {
		return err
	}
	if status == statusRunning {
		return errChanged
	}
	for range 8 {
		err = retain.Archive(q.Context(), q.store, s.Ref())
		if !errors.Is(err, session.ErrBusy) {
			break
		}
		t, lockErr := turn.Begin(q.Context(), s)
		if lockErr != nil {
			return lockErr
		}
		if endErr := t.End(); endErr != nil {
			return endErr
		}
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return invalid("the store of this server cannot archive")
	}
	if err != nil {
		return err
	}
	return q.agentsAnswer(s)
}
