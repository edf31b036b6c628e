package serve

import "context"

// A ChannelQuery selects from the logs of channels, see package convlog. With an
// empty Chat it selects the channels of Agent and Type, where empty means all. The
// result is a list with the members agent, type, chat, size and changed. With a Chat it
// selects up to Limit messages of that chat, the newest first. The result is a list with
// time, role, content, sender and place. The last place is the Before of the next page.
type ChannelQuery struct {
	Agent  string `json:"agent"`
	Type   string `json:"type"`
	Chat   string `json:"chat"`
	Sender string `json:"sender"`
	Text   string `json:"text"` // part of the content
	Before string `json:"before"`
	Limit  int    `json:"limit"`
}

var channelRoutes = []Route{
	onStore(Route{Method: "GET", Path: ownStore + "/channels", Summary: "List the logs of channels.", Admin: true}, (*Request).channels),
	onStore(Route{Method: "GET", Path: ownStore + "/channels/messages", Summary: "Read a page of the log of a channel.", Admin: true}, (*Request).channelMessages),
}

type channelList struct {
	Channels any `json:"channels"`
}

func (q *Request) channels(of struct {
	Agent string `json:"agent"`
	Type  string `json:"type"`
},
) (l channelList, err error) {
	l.Channels, err = q.channelLogs(q.Context(), ChannelQuery{Agent: of.Agent, Type: of.Type})
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
	p.Messages, err = q.channelLogs(q.Context(), of)
	return p, err
}

func (q *Request) channelLogs(ctx context.Context, query ChannelQuery) (any, error) {
	if q.sv.opts.ChannelLogs == nil {
		return nil, errUnsupported
	}
	return q.sv.opts.ChannelLogs(ctx, query)
}
