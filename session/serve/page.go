package serve

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/convolog/convolog/internal/page"
	"github.com/convolog/convolog/session"
)

var pageRoutes = []Route{
	{Method: "GET", Path: "/{$}", Summary: "Look at sessions.", Media: mediaHTML, Public: true, Do: (*Request).page},
	{Method: "GET", Path: "/page", Summary: "Look at sessions.", Media: mediaHTML, Public: true, Do: (*Request).page},
	onStore(Route{Method: "GET", Path: "/page/key", Summary: "Describe the sender to the page.", Public: true}, (*Request).asks),
	onStore(Route{Method: "POST", Path: "/page/key", Summary: "Sign in: keep the key of this request in a cookie."}, (*Request).signIn),
	onStore(Route{Method: "DELETE", Path: "/page/key", Summary: "Sign out."}, (*Request).signOut),
}

// page answers with the page. The page contains no data of the store, so it is public,
// and links of other sites may lead to it.
func (q *Request) page() error {
	q.w.Header().Set("Content-Type", mediaHTML)
	q.w.Header().Set("Content-Security-Policy", page.Policy("'self'")+"; frame-ancestors 'none'")
	q.w.Header().Set("Referrer-Policy", "no-referrer")
	_, err := q.w.Write(page.Live())
	return err
}

func (q *Request) fills(s *session.Session, _ none) (page.Context, error) {
	return page.Of(q.Context(), s)
}

// asking describes the sender to the page. The route is public, so that the page can ask
// the user for a missing key.
type asking struct {
	Known       bool `json:"known"`
	Cookie      bool `json:"cookie"` // known by the cookie
	ChannelLogs bool `json:"channelLogs"`
}

func (q *Request) asks(_ none) (a asking, err error) {
	if q.sv.isCrossSite(q.Request) {
		return a, errForbidden
	}
	signed := signedIn(q.Request)
	who, err := q.sv.principal(q.Request)
	if err != nil && keyOf(signed) != "" { // a guess
		q.reportRefusal(err)
	}
	a.Known = err == nil
	a.Cookie = a.Known && signed != q.Request
	a.ChannelLogs = a.Known && who.mayAll() && q.sv.opts.ChannelLogs != nil
	return a, nil
}

func (q *Request) signIn(_ none) (none, error) {
	key := keyOf(q.Request)
	if key == "" { // Options.Auth knew the sender without a key
		return none{}, nil
	}
	q.setCookie(base64.RawURLEncoding.EncodeToString([]byte(key)), 0)
	return none{}, nil
}

func (q *Request) signOut(_ none) (none, error) {
	q.setCookie("", -1)
	return none{}, nil
}

func (q *Request) setCookie(value string, age int) {
	path, _, _ := strings.Cut(q.RequestURI, "?")
	http.SetCookie(q.w, &http.Cookie{
		Name: keyCookie, Value: value, MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Path:   strings.TrimSuffix(path, "page/key"), // with the prefix of http.StripPrefix
		Secure: q.TLS != nil || strings.EqualFold(q.Header.Get("X-Forwarded-Proto"), "https"),
	})
}
