package serve_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/serve"
)

// The limit of an owner leaves the others alone, and a stream that has ended counts no
// more.
func TestRequestsOfOneOwner(t *testing.T) {
	t.Parallel()
	ts, store, _ := served(t, &serve.Options{Requests: 2, Auth: serve.Keys(map[string]serve.Principal{
		"alice": {Owner: "alice"}, "phone": {Owner: "alice", Agents: []string{"main"}}, "bob": {Owner: "bob"}, "admin": {Admin: true, Owner: "alice"},
	})})
	talk(t, store, "one")
	url := ts.URL + "/v1/store/sessions/main/one"
	status := func(key string) int {
		return call(t, "GET", ts.URL+"/v1/store/sessions", nil, "X-Api-Key", key).StatusCode
	}
	streams, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 2 {
		req, err := http.NewRequestWithContext(streams, "GET", url+"/follow", nil)
		require.NoError(t, err)
		req.Header.Set("X-Api-Key", "alice")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
	}
	for _, key := range []string{"alice", "phone"} {
		full := call(t, "GET", url, nil, "X-Api-Key", key)
		require.Equal(t, http.StatusServiceUnavailable, full.StatusCode)
		require.NotEmpty(t, full.Header.Get("Retry-After"))
	}
	require.Equal(t, http.StatusOK, status("bob"))
	require.Equal(t, http.StatusOK, status("admin"))
	require.Equal(t, http.StatusUnauthorized, status("nobody"))
	cancel()
	require.Eventually(t, func() bool { return status("alice") == http.StatusOK }, soon, 5*time.Millisecond)
}

// A person who is erased is forgotten too, by a plan that was sent back.
func TestOwnEraseMemories(t *testing.T) {
	t.Parallel()
	memories, err := memory.Open(memory.Folder(t.TempDir()), nil)
	require.NoError(t, err)
	ts, store, _ := served(t, &serve.Options{Memory: memories, Auth: serve.Keys(map[string]serve.Principal{"admin-key": {Admin: true}})})
	talk(t, store, "one")
	for _, owner := range []string{"alice", "bob"} {
		_, err = memories.Add(t.Context(), memory.Scope{Agent: "main", Owner: owner}, "preferences", "fruit", owner+" likes apples")
		require.NoError(t, err)
	}
	list := func(owner string) (n int) {
		for _, err := range memories.List(t.Context(), memory.Scope{Agent: "main", Owner: owner}) {
			require.NoError(t, err)
			n++
		}
		return n
	}
	admin := newAsker(t, ts, "admin-key")
	var plan, stale map[string]any
	admin.ask(200, "POST", "/v1/store/erase", map[string]any{"sessions": []session.Ref{{Agent: "main", ID: "one"}}}, &stale)
	require.NotContains(t, stale, "memories")
	admin.ask(200, "POST", "/v1/store/erase", map[string]any{"owner": "alice"}, &plan)
	require.Equal(t, []int{1, 1}, []int{list("alice"), list("bob")})
	var receipt erase.Receipt
	for range 2 { // repeating succeeds
		admin.ask(200, "POST", "/v1/store/erase/apply", plan, &receipt)
		require.Equal(t, []int{0, 1}, []int{list("alice"), list("bob")})
	}
	admin.ask(404, "GET", "/v1/store/sessions/main/one", nil, nil)
}

// An administrator of some agents may not use routes that reach all of them.
func TestAdministratorOfSomeAgents(t *testing.T) {
	t.Parallel()
	ts, store, sv := served(t, &serve.Options{Respond: echo, Auth: serve.Keys(map[string]serve.Principal{
		"some": {Admin: true, Agents: []string{"other"}}, "alice": {Owner: "alice"},
	})})
	s := talk(t, store, "one")
	page, err := search.Page(t.Context(), s, "", 2)
	require.NoError(t, err)
	before := state(t, s)
	for _, r := range sv.Routes() {
		if !r.Admin && !isOfSession(r) {
			continue
		}
		for _, key := range []string{"some", "alice"} {
			if key == "alice" && !r.Admin {
				continue
			}
			req := target{"main", "one", page[1].ID}.fill(t, ts.URL, r)
			req.Header.Set("X-Api-Key", key)
			// Other programs take these for more rights.
			for _, name := range []string{"X-Owner", "X-User", "X-Forwarded-User", "X-Remote-User", "X-Http-Method-Override", "X-Original-Url", "X-Rewrite-Url"} {
				req.Header.Set(name, "/v1/store/sessions")
			}
			status, _, body := send(t, req)
			require.Contains(t, []int{http.StatusForbidden, http.StatusNotFound}, status, "%s %s %s: %s", key, r.Method, r.Path, body)
		}
	}
	require.Equal(t, before, state(t, s))
}

// No body of a request reaches sessions of others, or gives sessions to others.
func TestOwnerByBody(t *testing.T) {
	t.Parallel()
	ts, store, _ := withKeys(t)
	s := talk(t, store, "one")
	page, err := search.Page(t.Context(), s, "", 2)
	require.NoError(t, err)
	alice, bob, admin := newAsker(t, ts, "alice-key"), newAsker(t, ts, "bob-key"), newAsker(t, ts, "admin-key")
	at := "/v1/store/sessions/main/one"
	for _, body := range []string{`{"owner":"bob"}`, `{"Owner":"bob"}`, `{"owner":"","OWNER":"bob"}`, `{"title":"x","owner":""}`} {
		for _, a := range []*asker{alice, admin} {
			status, answer := a.raw("PATCH", at, "application/json", []byte(body))
			require.Equal(t, http.StatusBadRequest, status, "%s: %s", body, answer)
		}
	}
	for _, body := range []string{`{"entry":"` + page[1].ID + `","owner":"bob"}`, `{"entry":"` + page[1].ID + `","parent":{"agent":"main","id":"x","call":"y"},"owner":"bob"}`} {
		status, answer := alice.raw("POST", at+"/fork", "application/json", []byte(body))
		require.GreaterOrEqual(t, status, 400, "%s: %s", body, answer)
	}
	for _, path := range []string{"/api/v1/sessions"} {
		status, answer := bob.raw("POST", path, "application/json", []byte(`{"owner":"alice","user":"alice","session_id":"ofbob"}`))
		require.Equal(t, http.StatusOK, status, "%s", answer)
	}
	infos, err := store.List(t.Context(), &session.ListOptions{Owner: "alice"})
	require.NoError(t, err)
	require.Len(t, infos, 1)
	bob.ask(200, "GET", "/v1/store/sessions?owner=alice", nil, nil)
	status, answer := bob.raw("GET", "/v1/store/sessions?owner=alice", "", nil)
	require.NotContains(t, string(answer), `"one"`, status)
}

// Two owners have the same key, and neither takes nor sees the session of the other.
func TestKeyOfTwoOwners(t *testing.T) {
	t.Parallel()
	ts, store, _ := withKeys(t)
	s := talk(t, store, "one")
	key := infoOf(t, s).Key
	alice, bob, admin := newAsker(t, ts, "alice-key"), newAsker(t, ts, "bob-key"), newAsker(t, ts, "admin-key")
	var list struct{ Sessions []session.Info }
	current := func(a *asker) (ids []string) {
		a.ask(200, "GET", "/v1/store/sessions?agent=main&channel=test&peer=one&current=true", nil, &list)
		for _, i := range list.Sessions {
			ids = append(ids, i.ID)
		}
		return ids
	}
	require.Empty(t, current(bob))
	var info session.Info
	bob.ask(200, "POST", "/v1/store/sessions", map[string]string{"key": key, "id": "bobs"}, &info)
	require.Equal(t, []any{"bob", true, 0}, []any{info.Owner, info.Current, info.Messages})
	require.Equal(t, []string{"bobs"}, current(bob))
	require.Equal(t, []string{"one"}, current(alice))
	require.Empty(t, current(admin), "those of no owner")
	before := state(t, s)
	bob.ask(409, "POST", "/v1/store/sessions", map[string]string{"key": key, "id": "one"}, nil)

	// A conversation is given away as a fork, which takes nobody's place.
	page, err := search.Page(t.Context(), s, "", 4)
	require.NoError(t, err)
	admin.ask(200, "POST", "/v1/store/sessions/main/one/fork", map[string]string{"entry": page[3].ID, "id": "given", "owner": "bob"}, &info)
	require.Equal(t, []any{"bob", key, false}, []any{info.Owner, info.Key, info.Current})
	require.Equal(t, []string{"bobs"}, current(bob))
	bob.ask(200, "GET", "/v1/store/sessions/main/given", nil, nil)
	alice.ask(404, "GET", "/v1/store/sessions/main/given", nil, nil)
	bob.ask(204, "DELETE", "/v1/store/sessions/main/bobs", nil, nil)
	require.Empty(t, current(bob))
	require.Equal(t, before, state(t, s))
}

// An idempotency key of another owner leads nowhere: nothing that one makes beforehand
// or at the same time stands in the way of the other.
func TestIdempotencyKeyOfTwoOwners(t *testing.T) {
	t.Parallel()
	ts, store, _ := withKeys(t)
	bob := newAsker(t, ts, "bob-key")
	sum := sha256.Sum256([]byte("alice\x00main\x00order-1")) // the ID that it once had
	bob.ask(200, "POST", "/v1/store/sessions", map[string]string{"id": "ses-" + hex.EncodeToString(sum[:16])}, nil)
	ids := map[string]string{}
	for range 2 {
		for _, owner := range []string{"bob", "alice"} {
			all := chat(t, ts.URL, map[string]any{"message": "of " + owner}, "Idempotency-Key", "order-1", "X-Api-Key", owner+"-key")
			require.Equal(t, "of "+owner, text(all))
			id := all[len(all)-1].data["sessionId"].(string)
			require.Equal(t, id, cmp.Or(ids[owner], id), "the same request, the same session")
			ids[owner] = id
		}
	}
	infos, err := store.List(t.Context(), &session.ListOptions{Owner: "alice"})
	require.NoError(t, err)
	require.Len(t, infos, 1)
	require.Equal(t, []any{ids["alice"], 2}, []any{infos[0].ID, infos[0].Messages})

	// The second time goes to the same session even if it was archived.
	newAsker(t, ts, "alice-key").ask(200, "POST", "/v1/store/sessions/main/"+ids["alice"]+"/archive", nil, nil)
	all := chat(t, ts.URL, map[string]any{"message": "of alice"}, "Idempotency-Key", "order-1", "X-Api-Key", "alice-key")
	require.Equal(t, ids["alice"], all[len(all)-1].data["sessionId"])
	infos, err = store.List(t.Context(), &session.ListOptions{State: session.AnyState})
	require.NoError(t, err)
	require.Len(t, infos, 3)

	// Another store makes another secret.
	ts, _, _ = withKeys(t)
	all = chat(t, ts.URL, map[string]any{"message": "of alice"}, "Idempotency-Key", "order-1", "X-Api-Key", "alice-key")
	require.NotEqual(t, ids["alice"], all[len(all)-1].data["sessionId"])
}

// Bodies other than JSON of the route change nothing.
func TestHostileBodies(t *testing.T) {
	t.Parallel()
	ts, store, _ := served(t, &serve.Options{Auth: anyone})
	s := talk(t, store, "one")
	before := state(t, s)
	a := newAsker(t, ts, "")
	deep := strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)
	for _, body := range []string{
		"{\"role\":\"user\",\"content\":\"\xff\xfe\"}", `{"role":"user","content":"a"} {}`, `{"role":"user","content":"a"`, deep, `[]`, `"x"`,
		`{"role":"user","content":1e999}`, "\xef\xbb\xbf{}", "\x1f\x8b\x08\x00",
	} {
		status, answer := a.raw("POST", "/api/v1/sessions/one/messages", "application/json", []byte(body))
		require.Equal(t, http.StatusBadRequest, status, "%.50q: %s", body, answer)
		status, answer = a.raw("PATCH", "/v1/store/sessions/main/one", "application/json", []byte(strings.ReplaceAll(body, "role", "titel")))
		require.Equal(t, http.StatusBadRequest, status, "%.50q: %s", body, answer)
	}
	for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json, text/plain", ""} {
		status, answer := a.raw("POST", "/api/v1/sessions/one/messages", media, []byte(`{"role":"user","content":"a"}`))
		require.Equal(t, http.StatusUnsupportedMediaType, status, "%s: %s", media, answer)
	}
	require.Equal(t, before, state(t, s))
}

// Routes that need no key take no body, so nobody fills the memory without one. With a
// key the bodies of all requests together are bounded.
func TestBodiesTogether(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	ts, store, _ := served(t, &serve.Options{Surfaces: []serve.Surface{serve.Page()}, MaxBody: most, Patience: time.Hour, Auth: serve.Keys(map[string]serve.Principal{
		"bob-key": {Owner: "bob"}, "alice-key": {Owner: "alice"},
	})})
	talk(t, store, "one")
	addr := strings.TrimPrefix(ts.URL, "http://")
	head := fmt.Sprintf("HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ", addr)
	for _, path := range []string{"/", "/page", "/page/key"} {
		refused(t, raw(t, addr, "GET "+path+" "+head+"10\r\n\r\n0123456789"), "400", path)
	}

	// Slow bodies hold up only their owner, and only until they end.
	var slow []net.Conn
	for range 20 {
		conn, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		defer conn.Close()
		_, err = fmt.Fprintf(conn, "POST /v1/store/sessions %s%d\r\nX-Api-Key: bob-key\r\n\r\n{", head, most)
		require.NoError(t, err)
		slow = append(slow, conn)
	}
	body := strings.Repeat(" ", most-2) + "{}"
	post := func(key string, patience time.Duration) (status int) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "POST", ts.URL+"/v1/store/sessions", strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("X-Api-Key", key)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0
		}
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	// Bob's next one waits until they are gone.
	require.Eventually(t, func() bool { return post("bob-key", 200*time.Millisecond) == 0 }, soon, time.Millisecond)
	require.Equal(t, http.StatusOK, post("alice-key", soon))
	for _, conn := range slow {
		require.NoError(t, conn.Close())
	}
	require.Equal(t, http.StatusOK, post("bob-key", soon))
}

// Connections without a key that send large bodies to a public route take no memory. It
// is not parallel to other tests, which take some.
func TestBodiesOfStrangers(t *testing.T) { //nolint:paralleltest // see above
	ts, _, _ := served(t, &serve.Options{Surfaces: []serve.Surface{serve.Page()}, MaxBody: 32 << 20, Auth: anyone})
	addr := strings.TrimPrefix(ts.URL, "http://")
	heap := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse)
	}
	runtime.GC()
	before, most := heap(), int64(0)
	part := make([]byte, 64<<10)
	var sending sync.WaitGroup
	for range 40 {
		sending.Go(func() {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				return
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(soon))
			_, err = fmt.Fprintf(conn, "GET /page HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", addr, 32<<20)
			for n := 0; err == nil && n < 31<<20; n += len(part) {
				_, err = conn.Write(part)
			}
			_, _ = io.ReadAll(conn) // until the server hangs up
		})
	}
	sent := make(chan struct{})
	go func() {
		sending.Wait()
		close(sent)
	}()
	for tick := time.NewTicker(5 * time.Millisecond); sent != nil; {
		select {
		case <-tick.C:
			most = max(most, heap()-before)
		case <-sent:
			tick.Stop()
			sent = nil
		}
	}
	t.Logf("40 bodies of 31 MiB took %d KiB", most>>10)
	require.Less(t, most, int64(64<<20))
}
