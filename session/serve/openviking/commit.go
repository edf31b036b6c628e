package openviking

import (
	"encoding/json"
	"io/fs"
	"strings"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/serve"
)

type (
	commitBody struct {
		Keep int `json:"keep_recent_count"` // of the newest messages that stay live
	}
	commitResult struct {
		ID          string       `json:"session_id"`
		Status      string       `json:"status"`
		Archived    bool         `json:"archived"`
		Reason      string       `json:"reason,omitempty"` // why no message was archived, as in memory.Committed
		NotArchived int          `json:"not_archived"`     // messages of an unfinished turn, and kept ones
		ArchiveURI  string       `json:"archive_uri,omitempty"`
		Task        string       `json:"task_id,omitempty"`
		Memories    int          `json:"memories_extracted"`
		NoMemories  string       `json:"memories_reason,omitempty"` // as Request.Learn returns it
		Stats       memory.Stats `json:"stats"`
	}
	// A task is a commit, which is over when the server answers it.
	task struct {
		ID       string         `json:"task_id"`
		Type     string         `json:"task_type"`
		Status   string         `json:"status"` // completed or failed
		Created  float64        `json:"created_at"`
		Updated  float64        `json:"updated_at"`
		Resource string         `json:"resource_id"`
		Result   map[string]any `json:"result"`
		Error    string         `json:"error,omitempty"`
	}
	configBody struct {
		AutoCommit json.RawMessage `json:"auto_commit_policy,omitempty"`
		Extraction json.RawMessage `json:"memory_extraction_config,omitempty"`
	}
	config struct {
		ID         string `json:"session_id"`
		AutoCommit any    `json:"auto_commit_policy"` // always null
	}
)

func commit(q *serve.Request, s *session.Session, body commitBody) (out commitResult, err error) {
	done, err := memory.Commit(q.Context(), s, &memory.CommitOptions{Leave: body.Keep, Unanswered: true})
	if err != nil {
		return out, err
	}
	memories, reason := q.Learn(s)
	stats, err := memory.ReadStats(q.Context(), s)
	if err != nil {
		return out, err
	}
	result := commitResult{
		ID: s.Ref().ID, Status: "committed", Archived: done.Chapter != "", Reason: done.Reason, NotArchived: done.Open,
		Memories: memories, NoMemories: reason, Stats: stats,
	}
	if result.Archived {
		result.ArchiveURI, result.Task = archiveURI(s.Ref(), done.Chapter), taskOf(s.Ref(), done.Chapter)
	}
	return result, nil
}

// taskOf returns the ID of the task of a commit.
func taskOf(ref session.Ref, chapter string) string { return ref.ID + taskMark + archiveName(chapter) }

const taskMark = "@"

// task describes the commit that closed an archive.
func (sf *surface) task(q *serve.Request, _ none) (out task, err error) {
	id := q.PathValue("task")
	at := strings.LastIndex(id, taskMark)
	if at < 0 {
		return out, fs.ErrNotExist
	}
	s, err := q.Session(sf.agent, id[:at])
	if err != nil {
		return out, err
	}
	chapters, err := memory.Chapters(q.Context(), s)
	if err != nil {
		return out, err
	}
	for _, c := range chapters {
		if taskOf(s.Ref(), c.Name) != s.Ref().ID+id[at:] {
			continue
		}
		when := float64(c.At.UnixMilli()) / float64(time.Second.Milliseconds())
		t := task{ID: id, Type: "session_commit", Status: "completed", Created: when, Updated: when, Resource: s.Ref().ID}
		t.Result = map[string]any{"session_id": s.Ref().ID, "archived": true, "archive_uri": archiveURI(s.Ref(), c.Name)}
		if info, err := s.Info(q.Context()); err != nil {
			return out, err
		} else if q.Memory != nil && info.Owner != "" && !c.Extracted {
			t.Status, t.Error = "failed", "memories were not extracted: the next commit tries again"
		}
		return t, nil
	}
	return out, fs.ErrNotExist
}

// setConfig refuses settings, because a server commits and extracts by one rule for all
// sessions. Turning them off is no change.
func setConfig(q *serve.Request, s *session.Session, body configBody) (out config, err error) {
	for _, setting := range []json.RawMessage{body.AutoCommit, body.Extraction} {
		if text := string(setting); text != "" && text != "null" && text != "{}" {
			return out, absent("a session has no settings for commits and extraction: options of the server set them")
		}
	}
	return config{ID: s.Ref().ID}, nil
}
