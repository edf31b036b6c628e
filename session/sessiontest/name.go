package sessiontest

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode"

	"github.com/convolog/convolog/session/driver"
)

const (
	// textNames is a rule that package driver does not state.
	textNames = "Any valid text may be the name of an agent or a key, and names that are not equal byte for byte are different ones."
	textBad   = "Every driver returns it, also from lookups: the error matches [fs.ErrInvalid], and [fs.ErrNotExist] as well, because nothing can exist under the name."
)

var nameRules = []Rule{
	{"name/agent", textNames, nameAgent},
	{"name/key", textNames, nameKey},
	{"name/id", "Ref names a session: its ID is unique within its agent.", nameID},
	{"name/bad-id", textBad, nameBadID},
	{"name/bad-agent", textBad, nameBadAgent},
	{"name/bad-key", textBad, nameBadKey},
}

// oddNames are easily mixed up, or no names of files.
func oddNames() []string {
	long := strings.Repeat("long name ", 30)
	return []string{
		"main", "Main", "MAIN", "main ", " main", "main.", ".main", "main-", "main_", "main%", "%6dain",
		".", "..", "...", "/", "//", "\\", "a/b", "a\\b", "../a", "../../../etc/passwd", "/a", "a/",
		"a:b", "a::b", "agent:main:cli:user", ":", "%", "%25", "%2e%2e", "%2F", "汉字", "汉", "é", "e\u0301",
		"con", "nul.txt", "sessions", "sessions.json", "*", "?", "\"", "'", "<>", "|", "$HOME", "~", "-rf",
		long, long + "x", strings.ToUpper(long), long[:len(long)-1], strings.Repeat("汉", 100),
		"a\nb", "a\tb", "a\x01b",
	}
}

func nameAgent(c *check) {
	d := c.start()
	names := oddNames()
	for _, name := range names {
		row := c.createID(d, name, "k", "same")
		c.errorIf(row.Agent != name, "Create: the agent %q becomes %q", name, row.Agent)
		c.append(d, row.Ref(), c.user(name))
	}
	look := func(when string, d driver.Driver) {
		for _, name := range names {
			ref := driver.Ref{Agent: name, ID: "same"}
			recs := c.scan(d, ref, 0, driver.Forward)
			if len(recs) != 2 || !slices.Equal(recs[1].Entry.Line(), c.likeUser(recs[1].Entry.ID, name).Data) {
				c.errorf("%s the session of agent %q has %d lines, want the 2 of its own", when, name, len(recs))
			}
			rows := c.list(d, name)
			if len(rows) != 1 || rows[0].Ref() != ref {
				c.errorf("%s List of agent %q: %d rows, want the one of its own", when, name, len(rows))
			}
			c.wantCurrent(fmt.Sprintf("of agent %q, %s", name, when), d, name, "k", "same")
		}
		c.wantAgents(when, d, slices.Sorted(slices.Values(names)))
	}
	look("after Create", d)
	look("after opening the storage again", c.restart())
}

func nameKey(c *check) {
	d := c.start()
	names, ids := oddNames(), map[string]string{}
	for _, name := range names {
		row, created := c.load(d, driver.KeyRef{Agent: "main", Key: name})
		if !created || row.Key != name {
			c.errorf("Load of the new key %q: the session of key %q, created %v", name, row.Key, created)
		}
		ids[name] = row.ID
	}
	look := func(when string, d driver.Driver) {
		for _, name := range names {
			c.wantCurrent(fmt.Sprintf("of key %q, %s", name, when), d, "main", name, ids[name])
		}
		for _, row := range c.list(d, "main") {
			c.errorIf(ids[row.Key] != row.ID, "%s List has session %s under key %q", when, row.ID, row.Key)
		}
	}
	look("after Load", d)
	look("after opening the storage again", c.restart())
}

func nameID(c *check) {
	d := c.start()
	refs := []driver.Ref{
		c.createID(d, "main", "k", "same").Ref(),
		c.createID(d, "other", "k", "same").Ref(),
		c.createID(d, "main", "k", "same-2").Ref(),
	}
	// A driver may refuse upper case, but not take it for lower case.
	if row, err := d.Create(c.ctx, driver.KeyRef{Agent: "main", Key: "k"}, header("main", "k", "SAME")); err == nil {
		refs = append(refs, row.Ref())
	}
	want := map[driver.Ref][]string{}
	for _, ref := range refs {
		l := c.note(ref.ID)
		c.append(d, ref, l)
		want[ref] = []string{ref.ID, l.ID}
	}
	look := func(d driver.Driver) {
		for _, ref := range refs {
			c.wantIDs(fmt.Sprintf("session %q of agent %q", ref.ID, ref.Agent), c.ids(d, ref), want[ref])
			row := c.get(d, ref)
			c.errorIf(row.Ref() != ref, "Get of %+v returns the row of %+v", ref, row.Ref())
		}
	}
	look(d)
	look(c.restart())
}

// refMethods are the methods that take a ref, of all interfaces of package
// driver. Those that a driver does not have are left out.
func refMethods(d driver.Driver) []method {
	all := append(slices.Clone(sessionMethods), method{"Scan with Keep", func(m call) error {
		for _, err := range m.d.Scan(m.ctx, m.ref, 0, driver.Backward, func(driver.Cursor, []byte) bool { return true }) {
			if err != nil {
				return err
			}
		}
		return nil
	}}, method{"Flush that cures", func(m call) error { return m.d.Flush(m.ctx, m.ref, true) }})
	if r, ok := d.(driver.Rewriter); ok {
		all = append(all, method{"Rewrite", func(m call) error { return r.Rewrite(m.ctx, m.ref, without()) }},
			method{"Archive", func(m call) error { return r.Archive(m.ctx, m.ref, driver.Anywhere) }},
			method{"Restore", func(m call) error { return r.Restore(m.ctx, m.ref) }})
	}
	if w, ok := d.(driver.Watcher); ok {
		all = append(all, method{"Watch", func(m call) error {
			stop, err := w.Watch(m.ref, func(driver.Ref, error) {})
			if err == nil {
				stop()
			}
			return err
		}})
	}
	return all
}

// createMethods are the methods that make a session with an ID for a key of the
// agent of a ref.
func createMethods(key, id string) []method {
	return []method{
		{"Load", func(m call) error { return m.load(key, id) }},
		{"Create", func(m call) error { return m.create(key, id) }},
	}
}

// currentMethod is Load without a header.
func currentMethod(key string) method {
	return method{"Load without a header", func(m call) error { return errOf(m.d.Load(m.ctx, m.key(key), nil)) }}
}

func listMethod() method {
	return method{"List", func(m call) error { return errOf(m.d.List(m.ctx, m.ref.Agent, driver.Position{}, 0)) }}
}

// badNames calls f, which uses invalid names, on a storage with one session, and
// checks that the storage is unchanged afterwards.
func (c *check) badNames(f func(d driver.Driver)) {
	d := c.start()
	row := c.create(d, "main", "k")
	before := c.list(d, "main")
	f(d)
	d = c.restart()
	c.wantRows("after names that can name nothing", c.list(d, "main"), before)
	c.wantAgents("after names that can name nothing", d, []string{"main"})
	c.wantCurrent("after names that can name nothing", d, "main", "k", row.ID)
}

// wantNameErrors calls methods with a name that can name nothing.
func (c *check) wantNameErrors(d driver.Driver, methods []method, ref driver.Ref, name string) {
	for _, m := range methods {
		c.calling(m.name)
		err := m.call(call{c, c.ctx, d, ref})
		if errors.Is(err, errors.ErrUnsupported) {
			continue
		}
		what := fmt.Sprintf("%s with the name %.20q of %d bytes", m.name, name, len(name))
		if _, ok := errors.AsType[*driver.NameError](err); !ok {
			c.errorf("%s: error %.200s, want a *driver.NameError", what, orNil(err))
			continue
		}
		c.wantErr(what, err, fs.ErrInvalid, fs.ErrNotExist)
		if text := err.Error(); len(text) > 1000 || strings.ContainsFunc(text, unicode.IsControl) {
			c.errorf("%s: the error has %d bytes, %.200q; want the name quoted, and only its beginning if it is long", what, len(text), text)
		}
	}
}

func nameBadID(c *check) {
	c.badNames(func(d driver.Driver) {
		for _, id := range []string{
			"", "../../x", "..", ".", "/", "/x", "a/b", "a/", "a\\b", "\\", "a\x00b", "\x00", "a\nb", "\n", "a b", "-a", "_a", ".a",
			"汉", "a\xff", strings.Repeat("x", 129), strings.Repeat("x", 5000), strings.Repeat("../", 100) + "x",
		} {
			for _, agent := range []string{"main", "nobody"} {
				ref := driver.Ref{Agent: agent, ID: id}
				c.wantNameErrors(d, refMethods(d), ref, id)
				c.wantNameErrors(d, createMethods("new key", id), ref, id)
			}
		}
	})
}

func nameBadAgent(c *check) {
	c.badNames(func(d driver.Driver) {
		for _, agent := range []string{"", "a\x00", "\x00", "a\xff", strings.Repeat("x", 513), strings.Repeat("x", 5000)} {
			ref := driver.Ref{Agent: agent, ID: c.id()}
			c.wantNameErrors(d, refMethods(d), ref, agent)
			c.wantNameErrors(d, createMethods("k", ref.ID), ref, agent)
			c.wantNameErrors(d, []method{currentMethod("k")}, ref, agent)
			if agent != "" { // which lists the agents
				c.wantNameErrors(d, []method{listMethod()}, ref, agent)
			}
		}
	})
}

func nameBadKey(c *check) {
	c.badNames(func(d driver.Driver) {
		for _, key := range []string{"", "\xff", "k\xff", strings.Repeat("\xff", 5000)} {
			for _, agent := range []string{"main", "nobody"} {
				ref := driver.Ref{Agent: agent, ID: c.id()}
				c.wantNameErrors(d, append(createMethods(key, ref.ID), currentMethod(key)), ref, key)
			}
		}
	})
}
