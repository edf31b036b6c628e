package search

import (
	"context"
	"fmt"
	"io/fs"
	"strings"

	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/session"
)

// AmbiguousError reports that a text fits several sessions; see [ByPrefix].
type AmbiguousError struct {
	Query   string         `json:"query"`
	Matches []session.Info `json:"matches"`
}

// Error returns one line with the IDs of the first five matches.
func (e *AmbiguousError) Error() string {
	var names []string
	for i, m := range e.Matches {
		if i == 5 {
			names = append(names, "...")
			break
		}
		names = append(names, m.ID)
	}
	return fmt.Sprintf("%q fits %d sessions (%s): give more of the ID, the key or the title",
		e.Query, len(e.Matches), strings.Join(names, ", "))
}

// ByPrefix returns the session that a person means: the one whose ID or key is text, else
// the only one whose key has it as the peer, which may be an ID in another program, else
// the only one whose ID, key or title begins with it. A key means its current session; a
// whole key is one of the store, or of the owner of a scope. Titles compare like the words
// of a [Query]. The error is an [*AmbiguousError] or matches fs.ErrNotExist.
//
// ByPrefix looks only at the sessions that [session.Store.List] returns for opts,
// without After and Limit: no other session is found, makes a text ambiguous, or is
// named in an error. Nil options are as in List.
func ByPrefix(ctx context.Context, st *session.Store, text string, opts *session.ListOptions) (session.Info, error) {
	var all session.ListOptions
	if opts != nil {
		all = *opts
	}
	all.After, all.Limit = "", 0
	infos, err := st.List(ctx, &all)
	if err != nil {
		return session.Info{}, fmt.Errorf("find %q: %w", text, err)
	}
	exactly := func(i session.Info) bool { return i.ID == text || i.Current && i.Key == text && i.Owner == st.Owner() }
	peer := func(i session.Info) bool {
		k, err := session.ParseKey(i.Key)
		return err == nil && i.Current && k.Peer == text
	}
	folded := words.Fold(text) // empty for invisible characters
	begins := func(i session.Info) bool {
		return strings.HasPrefix(i.ID, text) || i.Current && strings.HasPrefix(i.Key, text) || folded != "" && strings.HasPrefix(words.Fold(i.Title), folded)
	}
	for _, fits := range []func(session.Info) bool{exactly, peer, begins} {
		var found []session.Info
		for _, info := range infos {
			if text != "" && fits(info) {
				found = append(found, info)
			}
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return session.Info{}, &AmbiguousError{Query: text, Matches: found}
		}
	}
	return session.Info{}, fmt.Errorf("find %q: %w: list the sessions to see which there are", text, fs.ErrNotExist)
}
