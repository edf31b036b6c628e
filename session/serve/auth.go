package serve

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/convolog/convolog/session"
)

// A Principal is the sender of a request.
type Principal struct {
	// Owner is an owner of sessions. It is required without Admin: the principal sees
	// only the sessions of this owner, and its new sessions get this owner.
	Owner string
	// Agents are the agents that the principal may use; empty means all agents.
	Agents []string
	// Admin lets the principal see all sessions, whatever Owner is. The routes for
	// administrators also require that Agents is empty.
	Admin bool

	shared bool // [Keys] also lists an administrator without an owner
}

// A Demand is a request that Options.Admit decides on.
type Demand struct {
	Route Route
	Body  int64 // size in bytes; Options.MaxBody if the client sends no length
	// Creates is set if the request is about to create a session. Routes that create only
	// a missing session, such as OpenViking's auto_create, set it only then.
	Creates bool
}

// May reports whether the principal may use an agent. Agents whose names begin with '_'
// belong to the library: no principal may use them.
func (p Principal) May(agent string) bool {
	return !strings.HasPrefix(agent, "_") && (len(p.Agents) == 0 || slices.Contains(p.Agents, agent))
}

// account returns the name under which requests are counted: the owner, or "" for
// administrators.
func (p Principal) account() string {
	if p.Admin {
		return ""
	}
	return p.Owner
}

var errUnauthorized = errors.New("the key is missing or unknown")

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
			return Principal{}, errUnauthorized
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

var (
	errNobody    = errors.New("the principal is neither an owner nor an administrator")
	errShared    = errors.New("administrators without an owner have this owner too")
	errCrossSite = errors.New("the request comes from a web page of another site")
)

func (sv *Server) principal(r *http.Request) (Principal, error) {
	if sv.paged {
		r = signedIn(r)
	}
	who, err := sv.opts.Auth(r)
	if err == nil && who.Owner == "" && !who.Admin {
		err = errNobody
	}
	ofAdmins := func(s Surface) bool { return s.Owner != "" && s.Owner == who.Owner }
	if err == nil && who.shared && !who.Admin && slices.ContainsFunc(sv.opts.Surfaces, ofAdmins) {
		err = errShared
	}
	return who, err
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
