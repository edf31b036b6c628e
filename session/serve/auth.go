package serve

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/convolog/convolog/session"
)

// Keys returns a function for Options.Auth. Clients send their key in the header
// X-API-Key or as Authorization: Bearer. A comparison takes the same time for every
// key. An empty key never matches.
func Keys(keys map[string]Principal) func(*http.Request) (Principal, error) {
	type entry struct {
		hash [sha256.Size]byte
		who  Principal
	}
	var known []entry
	shared := false
	for key, who := range keys {
		shared = shared || key != "" && who.Admin && who.Owner == ""
	}
	for key, who := range keys {
		if who.shared = shared; key != "" {
			known = append(known, entry{sha256.Sum256([]byte(key)), who})
		}
	}
	return func(r *http.Request) (who Principal, err error) {
		hash, found := sha256.Sum256([]byte(keyOf(r))), 0
		for _, e := range known { // compare with all keys, so that the time reveals nothing
			if subtle.ConstantTimeCompare(hash[:], e.hash[:]) == 1 {
				found, who = 1, e.who
			}
		}
		if found == 0 {
			return Principal{}, errWho
		}
		return who, nil
	}
}

func keyOf(r *http.Request) string {
	key := r.Header.Get("X-API-Key")
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && key == "" && strings.EqualFold(scheme, "Bearer") {
		key = strings.TrimSpace(token)
	}
	return key
}

// credentials returns the texts of a request's headers that Options.Auth may take for a key.
func credentials(r *http.Request) []string {
	_, password, _ := r.BasicAuth()
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	all := []string{keyOf(signedIn(r)), password, strings.TrimSpace(token), r.Header.Get("Authorization")}
	for _, cookie := range r.Cookies() {
		all = append(all, cookie.Value)
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })         // one may begin with another
	return slices.DeleteFunc(all, func(text string) bool { return len(text) < 4 }) // no secret, and a part of other words
}

// principal returns the sender of a request, or a 401 problem: for an unknown key, for a
// sender that is neither an owner nor an administrator, and for an owner whose sessions
// administrators without an owner share.
func (sv *Server) principal(r *http.Request) (Principal, error) {
	if sv.paged {
		r = signedIn(r)
	}
	who, err := sv.opts.Auth(r)
	if err != nil && !errors.Is(err, errWho) {
		return who, fmt.Errorf("%w: %w", errWho, err)
	}
	ofAdmins := func(s Surface) bool { return s.Owner != "" && s.Owner == who.Owner }
	if err != nil || !who.Admin && (who.Owner == "" || who.shared && slices.ContainsFunc(sv.opts.Surfaces, ofAdmins)) {
		return who, errWho
	}
	return who, nil
}

// isCrossSite reports whether a web page of another site makes a request. The check of
// net/http lets every GET pass, but here a GET can begin a stream, so it checks a POST.
func (sv *Server) isCrossSite(r *http.Request) bool {
	return sv.cross.Check(&http.Request{Method: http.MethodPost, Header: r.Header, Host: r.Host, URL: r.URL}) != nil
}

// preflight lets web pages of Options.Origins read answers, and answers preflight
// requests of their browsers.
func (sv *Server) preflight(w http.ResponseWriter, r *http.Request) (done bool) {
	origin := r.Header.Get("Origin")
	if !slices.Contains(sv.opts.Origins, origin) {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Vary", "Origin")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-API-Key")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// secret names a session whose owner is a secret of the store. The secret is an owner
// because no filter changes owners.
var secret = session.Ref{Agent: "_settings", ID: "secret"}

// idOf returns the ID of the session for an idempotency key. Other owners cannot compute
// this ID, and so cannot take it first.
func idOf(ctx context.Context, store *session.Store, owner, agent, key string) (string, error) {
	s, err := store.Get(ctx, secret)
	if errors.Is(err, fs.ErrNotExist) {
		s, err = store.Create(ctx, session.Key{Agent: secret.Agent}, &session.CreateOptions{ID: secret.ID, Owner: rand.Text()})
	}
	if errors.Is(err, fs.ErrExist) { // another request created it
		s, err = store.Get(ctx, secret)
	}
	if err != nil {
		return "", err
	}
	info, err := s.Info(ctx)
	mac := hmac.New(sha256.New, []byte(info.Owner))
	fmt.Fprintf(mac, "%q %q %q", owner, agent, key)
	return "ses-" + hex.EncodeToString(mac.Sum(nil)[:16]), err
}

// A browser's EventSource sends no header with a key, so the server keeps the key in a
// cookie. Scripts cannot read the cookie, and requests caused by other sites do not carry
// it.
const keyCookie = "convolog-key"

// signedIn copies the key of a request's cookie into the headers that [Keys] reads. It
// returns r itself if the headers contain a key, or there is no such cookie.
func signedIn(r *http.Request) *http.Request {
	cookie, err := r.Cookie(keyCookie)
	if err != nil || keyOf(r) != "" {
		return r
	}
	key, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil {
		return r
	}
	r = r.Clone(r.Context())
	r.Header.Set("X-API-Key", string(key))
	r.Header.Set("Authorization", "Bearer "+string(key))
	return r
}
