// Package convlog logs the messages that a program receives and delivers on its channels.
// Each chat gets its own log, for administrators. A log stays when a session is compacted
// or deleted. Agents cannot read a log: no method of a [Writer] returns content of a log,
// and no package of this module imports this one.
//
//	w, err := convlog.OpenWriter(dir, nil)
//	defer w.Close()
//	err = w.Append(ctx, convlog.Channel{Agent: "main", Type: "telegram", Chat: "42"},
//		convlog.Entry{Role: "user", Content: "hello", Sender: "anna", MessageID: update.ID})
//
// With a MessageID, a message that is received twice is written once. Administrators use
// [Open]: the [Log] lists the chats and reads each chat, the newest entry first.
//
// The file of a chat is agents/<agent>/convlogs/<type>-<chat>.jsonl below the folder of
// the store. The layout is ZyHive's, so a Log also reads logs of ZyHive. A log holds texts
// and references; keep media elsewhere.
package convlog

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/internal/filename"
	"github.com/convolog/convolog/transcript"
)

// A Channel is one chat. All fields are required.
type Channel struct {
	Agent string `json:"agent"`
	Type  string `json:"type"` // telegram, web, api and so on
	Chat  string `json:"chat"` // the channel's own name for the chat
}

// An Entry is one received or delivered message.
type Entry struct {
	Time      time.Time        `json:"time"` // the zero value becomes the time of the append
	Role      string           `json:"role"` // "user" or "assistant"
	Content   string           `json:"content"`
	Sender    string           `json:"sender,omitempty"`
	MessageID string           `json:"messageId,omitempty"` // the channel's own ID, or empty
	Extra     transcript.Extra `json:"extra,omitempty"`     // further members of the line
}

// Options of a [Writer]. Nil and the zero value are the defaults.
type Options struct {
	// Sync decides when entries reach stable storage. With the zero value they reach it
	// before Append returns.
	Sync filelog.SyncPolicy
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

const folderName = "convlogs"

func (c Channel) check() error {
	switch "" {
	case c.Agent, c.Type, c.Chat:
		return fmt.Errorf("convlog: channel %+v: agent, type and chat are required; nothing was written", c)
	}
	if !utf8.ValidString(c.Agent + c.Type + c.Chat) {
		return fmt.Errorf("convlog: channel %+q: not valid UTF-8; nothing was written", c)
	}
	return nil
}

func folder(agent string) string { return path.Join("agents", filename.Encode(agent), folderName) }

// file returns the name of the log's file. A "-" inside the type is escaped, so no two
// channels share a file.
func (c Channel) file() string {
	return strings.ReplaceAll(filename.Encode(c.Type), "-", "%2d") + "-" + filename.Encode(c.Chat) + ".jsonl"
}

// zyhive returns ZyHive's name for the file of the log. Several chats can share it.
func (c Channel) zyhive() string {
	return strings.NewReplacer("/", "-", `\`, "-").Replace(c.id()) + ".jsonl"
}

func (c Channel) id() string { return c.Type + "-" + c.Chat }

// A line is the stored form of an entry.
type line struct {
	TS          time.Time `json:"ts"`
	Role        string    `json:"role"`
	Content     string    `json:"content"`
	ChannelID   string    `json:"channelId"`
	ChannelType string    `json:"channelType"`
	Sender      string    `json:"sender,omitempty"`
	ID          string    `json:"id,omitempty"`
}

// lineMembers are the names of a line's members.
var lineMembers = []string{"ts", "role", "content", "channelId", "channelType", "sender", "id"}

func (c Channel) encode(e Entry) ([]byte, error) {
	e.Content = strings.ToValidUTF8(e.Content, "\uFFFD")
	data, err := json.Marshal(line{e.Time.UTC(), e.Role, e.Content, c.id(), c.Type, e.Sender, e.MessageID})
	if err != nil {
		return nil, err
	}
	for _, name := range lineMembers {
		if _, ok := e.Extra[name]; ok {
			return nil, fmt.Errorf("convlog: Extra contains the reserved member %q: nothing was written", name)
		}
	}
	if len(e.Extra) > 0 {
		more, err := json.Marshal(e.Extra)
		if err != nil {
			return nil, fmt.Errorf("convlog: Extra: %w: nothing was written", err)
		}
		data = append(append(data[:len(data)-1], ','), more[1:]...)
	}
	return append(data, '\n'), nil
}

func decode(data []byte, _ int64) (transcript.Entry, error) {
	var l line
	if err := json.Unmarshal(data, &l); err != nil || l.ChannelType == "" {
		return transcript.Entry{}, &transcript.DamageError{Kind: transcript.DamageMalformed, Reason: "the line is not from a channel log"}
	}
	return transcript.Entry{Time: l.TS, Body: transcript.Custom{}}.WithLine(data), nil
}

// parse returns the entry and the channel of a line that decode accepted.
func parse(data []byte) (Entry, line) {
	var l line
	var extra transcript.Extra
	_ = json.Unmarshal(data, &l)     // decode accepted it
	_ = json.Unmarshal(data, &extra) // an object
	for _, name := range lineMembers {
		delete(extra, name)
	}
	if len(extra) == 0 {
		extra = nil
	}
	return Entry{l.TS, l.Role, l.Content, l.Sender, l.ID, extra}, l
}

func openRoot(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("convlog: %w", err)
	}
	return root, nil
}
