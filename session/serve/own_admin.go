package serve

import (
	"archive/zip"
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

type channelList struct {
	Channels any `json:"channels"`
}

func (q *Request) channels(of struct {
	Agent string `json:"agent"`
	Type  string `json:"type"`
},
) (l channelList, err error) {
	l.Channels, err = q.channelLogs(ChannelQuery{Agent: of.Agent, Type: of.Type})
	return l, err
}

type channelPage struct {
	Messages any `json:"messages"`
}

func (q *Request) channelMessages(of ChannelQuery) (p channelPage, err error) {
	if of.Agent == "" || of.Type == "" || of.Chat == "" {
		return p, Invalid("name the channel: agent, type and chat")
	}
	of.Limit = clamp(of.Limit, 100, 1000)
	p.Messages, err = q.channelLogs(of)
	return p, err
}

func (q *Request) channelLogs(query ChannelQuery) (any, error) {
	if q.sv.opts.ChannelLogs == nil {
		return nil, errUnsupported
	}
	return q.sv.opts.ChannelLogs(q.Context(), query)
}

func (q *Request) ownPlan(r retain.Policy) (retain.Plan, error) {
	return retain.Preview(q.Context(), q.Store, r)
}

// ownApply carries out a plan. The report lists the failed sessions without a reason;
// the log gets the reasons.
func (q *Request) ownApply(plan retain.Plan) (retain.Report, error) {
	report, err := retain.Apply(q.Context(), q.Store, plan)
	if err != nil && len(report.Items) > 0 {
		q.sv.opts.Logger.Warn("serve: sessions of a plan failed", "err", discreet(err))
		err = nil
	}
	for i := range report.Items {
		if report.Items[i].Outcome == "failed" {
			report.Items[i].Reason = errInternal.Title
		}
	}
	return report, err
}

type ownErasure struct {
	Owner    string            `json:"owner,omitempty"`
	Sessions []session.Ref     `json:"sessions,omitempty"`
	Entries  []erase.Selection `json:"entries,omitempty"`
}

// ownErasePlan is a plan and the owner of the memories to erase. A plan in JSON contains
// nothing for a [transcript.Eraser].
type ownErasePlan struct {
	erase.Plan
	Memories string `json:"memories,omitempty"` // the owner of the memories
}

func (q *Request) ownPlanErase(e ownErasure) (p ownErasePlan, err error) {
	var also []transcript.Eraser
	if m := q.sv.opts.Memory; m != nil {
		also, p.Memories = append(also, m), e.Owner
	}
	p.Plan, err = erase.Preview(q.Context(), q.Store, erase.Erasure{Owner: e.Owner, Sessions: e.Sessions, Entries: e.Entries}, also...)
	return p, err
}

// ownErase carries out a plan. After an error the client may send the same plan again.
func (q *Request) ownErase(p ownErasePlan) (erase.Receipt, error) {
	report, err := erase.Run(q.Context(), q.Store, p.Plan)
	if err != nil || q.sv.opts.Memory == nil {
		return report, err
	}
	places, err := q.sv.opts.Memory.Erase(q.Context(), transcript.Subject{Owner: p.Memories})
	report.Places = append(report.Places, places...)
	return report, err
}

// ownExport answers with plain text, so that no browser shows it as a page.
func (q *Request) ownExport(s *session.Session, x struct {
	As    string `json:"as"` // jsonl (the default), markdown, html, or a name in Options.Renderers
	Model string `json:"model"`
},
) (done, error) {
	name := s.Ref().ID + ".jsonl"
	write := func(w io.Writer) error { return exchange.Lines(q.Context(), s, w) }
	switch renderer, ok := q.sv.opts.Renderers[x.As]; {
	case ok:
		name = s.Ref().ID + ".json"
		write = func(w io.Writer) error {
			_, err := exchange.Request(q.Context(), s, w, renderer, transcript.Request{Model: x.Model})
			return err
		}
	case x.As == "markdown":
		name = s.Ref().ID + ".md"
		write = func(w io.Writer) error { return exchange.Markdown(q.Context(), s, w) }
	case x.As == "html":
		name = s.Ref().ID + ".html"
		write = func(w io.Writer) error { return exchange.HTML(q.Context(), s, w) }
	case x.As != "" && x.As != "jsonl":
		return done{}, Invalid("the form is not jsonl, markdown, html or the name of a renderer")
	}
	q.w.Header().Set("Content-Type", mediaText)
	q.w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	buffered := bufio.NewWriterSize(q.w, 64<<10)
	err := write(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if err != nil && !q.w.begun {
		q.w.Header().Del("Content-Disposition")
	}
	return done{}, err
}

type ownImported struct {
	Session  session.Ref    `json:"session"`
	Key      string         `json:"key"`
	Created  bool           `json:"created"`
	Records  int            `json:"records"`
	Appended int            `json:"appended"`
	Trashed  bool           `json:"trashed,omitempty"`
	Lost     dialect.Losses `json:"lost,omitempty"`
	Aside    map[string]int `json:"aside,omitempty"` // records that no model is shown, by name
	Failed   *Problem       `json:"failed,omitempty"`
}

// ownImport imports a transcript. A repeated request appends no entry twice.
func (q *Request) ownImport() error {
	// A transcript without an ID gets the ID from its file name.
	name := "session.jsonl"
	if _, said, err := mime.ParseMediaType(q.Header.Get("Content-Disposition")); err == nil && fs.ValidPath(said["filename"]) {
		name = path.Base(said["filename"])
	}
	files, err := oneFile(name, q.data)
	if err != nil {
		return err
	}
	folder, err := dialect.ReadFolder(files)
	if err != nil {
		return errNoSession
	}
	if err := q.demand(true); err != nil {
		return err
	}
	out := []ownImported{}
	reports, err := exchange.Import(q.Context(), q.Store, folder.Sessions(), nil)
	for _, r := range reports {
		one := ownImported{r.Session, r.Key.String(), r.Created, r.Records, r.Appended, r.Trashed, r.Lost, r.Source.Asides, nil}
		if r.Err != nil {
			one.Failed = problemOf(r.Err)
			if errors.Is(r.Err, exchange.ErrDiverged) {
				one.Failed = errDiverged
			}
		}
		out = append(out, one)
	}
	switch {
	case err != nil && len(out) == 0:
		return err
	case err != nil:
		q.sv.opts.Logger.Warn("serve: an import failed", "err", discreet(err))
	case len(out) == 0:
		return errNoSession
	}
	q.JSON(http.StatusOK, out)
	return nil
}

var errNoSession = Invalid("the lines are not a session")

func oneFile(name string, data []byte) (fs.FS, error) {
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
	if err != nil {
		return nil, err
	}
	_, err = w.Write(data)
	if err = errors.Join(err, z.Close()); err != nil {
		return nil, err
	}
	return zip.NewReader(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
}
