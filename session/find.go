package session

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
)

// AmbiguousError says that a query of [Store.Find] fits several sessions.
type AmbiguousError struct {
	Query   string
	Matches []Info
}

// Error returns one line with the IDs of the matches.
func (e *AmbiguousError) Error() string {
	names := make([]string, len(e.Matches))
	for i, m := range e.Matches {
		names[i] = m.ID
	}
	return fmt.Sprintf("session: %q fits %d sessions (%s): give more of the ID, the key or the title",
		e.Query, len(e.Matches), strings.Join(names, ", "))
}

// Find returns the session that a person means: the one whose ID or key is
// query, else the only one whose ID, key or title begins with it. A key stands
// for its current session. Titles match without regard to case. The error is
// an [*AmbiguousError] with the matches, or matches fs.ErrNotExist.
func (st *Store) Find(ctx context.Context, query string) (Info, error) {
	infos, err := st.List(ctx, nil)
	if err != nil {
		return Info{}, err
	}
	for _, fits := range []func(Info) bool{
		func(i Info) bool { return i.ID == query || i.Current && i.Key == query },
		func(i Info) bool {
			return strings.HasPrefix(i.ID, query) || i.Current && strings.HasPrefix(i.Key, query) || hasPrefixFold(i.Title, query)
		},
	} {
		var found []Info
		for _, info := range infos {
			if query != "" && fits(info) {
				found = append(found, info)
			}
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return Info{}, &AmbiguousError{Query: query, Matches: found}
		}
	}
	return Info{}, fmt.Errorf("session: find %q: %w: list the sessions to see which there are", query, fs.ErrNotExist)
}

func hasPrefixFold(s, prefix string) bool {
	return strings.HasPrefix(strings.ToLower(s), strings.ToLower(prefix))
}
