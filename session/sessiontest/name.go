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

var nameRules = []rule{
	{"name/key", textNames, nameKey},
	{"name/ref", "Ref names a session: its ID is unique within its agent.", nameRef},
	{"name/bad", textBad, nameBad},
}

// oddNames are easily confused, or not valid as file names.
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

// Agents and IDs that are alike.
func nameRef(c *check) {
	d, other := c.startTwo()
	refs := []driver.Ref{{Agent: "main", ID: "same-2"}, {Agent: "main", ID: "SAME"}}
	for _, name := range oddNames() {
		refs = append(refs, driver.Ref{Agent: name, ID: "same"})
	}
	want := state{}
	for _, ref := range refs {
		row, err := c.make(d, driver.KeyRef{Agent: ref.Agent, Key: "k"}, ref.ID, nil)
		if err != nil && ref.ID == "SAME" {
			continue // a driver may refuse upper case, but not take it for lower case
		}
		c.noErr(fmt.Sprintf("Create of %q", ref), err)
		lines := c.users(ref.Agent + ref.ID)
		c.append(other, ref, lines...)
		want.create(row, lines...)
	}
	c.everywhere("after Create of sessions whose names are alike", want, d, other)
}

func nameKey(c *check) {
	d, other := c.startTwo()
	var keys []driver.KeyRef
	for _, name := range oddNames() {
		keys = append(keys, driver.KeyRef{Agent: "main", Key: name})
	}
	// Names of owners and keys that are easily confused when they are joined.
	for _, n := range [][2]string{{"a", "b:c"}, {"a:b", "c"}, {"ab", "c"}, {"a", "bc"}, {"", "abc"}, {"abc", "abc"}, {"A", "abc"}, {"汉/\"\n", "\\\"k"}, {"a\x00", "k"}, {"a", "\x00k"}} {
		keys = append(keys, driver.KeyRef{Agent: "main", Owner: n[0], Key: n[1]})
	}
	want := state{}
	for _, key := range keys {
		row, created := c.load(d, key)
		c.errorIf(!created || row.KeyRef() != key, "Load of the new key %q: the session of %q", key, row.KeyRef())
		want.create(row)
	}
	c.errorIf(len(want) != len(keys), "%d keys have %d sessions", len(keys), len(want))
	c.everywhere("after Load of many keys", want, d, other)
}

// refMethods are the methods that take a ref, of all interfaces of package
// driver. Those that a driver does not have are left out.
func refMethods(d driver.Driver) []method {
	all := append(slices.Clone(sessionMethods), method{"Flush that cures", func(m call) error { return m.d.Flush(m.ctx, m.ref, true) }})
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

// wantNameErrors calls methods with an invalid name.
func (c *check) wantNameErrors(d driver.Driver, ref driver.Ref, name string, methods ...method) {
	for _, m := range methods {
		c.calling(m.name)
		err := m.call(call{c, c.ctx, d, ref})
		if errors.Is(err, errors.ErrUnsupported) {
			continue
		}
		what := fmt.Sprintf("%s with the name %.20q of %d bytes", m.name, name, len(name))
		if _, ok := errors.AsType[*driver.NameError](err); !ok {
			c.errorf("%s: error %.200v, want a *driver.NameError", what, err)
			continue
		}
		c.wantErr(what, err, fs.ErrInvalid, fs.ErrNotExist)
		if text := err.Error(); len(text) > 1000 || strings.ContainsFunc(text, unicode.IsControl) {
			c.errorf("%s: the error has %d bytes, %.200q; want the name quoted, and only its beginning if it is long", what, len(text), text)
		}
	}
}

func nameBad(c *check) {
	d, other, _ := c.startSession()
	want := c.state(d)
	long := strings.Repeat("x", 5000)
	for _, agent := range []string{"main", "nobody"} {
		for _, id := range []string{
			"", "../../x", "..", ".", "/", "/x", "a/b", "a/", "a\\b", "\\", "a\x00b", "\x00", "a\nb", "\n", "a b", "-a", "_a", ".a",
			"汉", "a\xff", long[:129], long, strings.Repeat("../", 100) + "x",
		} {
			c.wantNameErrors(d, driver.Ref{Agent: agent, ID: id}, id, append(refMethods(d), makers(driver.KeyRef{Key: "new key"}, id)[:2]...)...)
		}
		for _, key := range []driver.KeyRef{{Key: ""}, {Key: "\xff"}, {Key: "k\xff"}, {Key: strings.Repeat("\xff", 5000)}, {Owner: "a\xff", Key: "k"}} {
			id := c.id()
			c.wantNameErrors(d, driver.Ref{Agent: agent, ID: id}, key.Owner+key.Key, makers(key, id)...)
		}
	}
	for _, agent := range []string{"", "a\x00", "\x00", "a\xff", long[:513], long} {
		ref := driver.Ref{Agent: agent, ID: c.id()}
		c.wantNameErrors(d, ref, agent, append(refMethods(d), makers(keyK, ref.ID)...)...)
		if agent != "" { // which lists the agents
			c.wantNameErrors(d, ref, agent, listMethod)
		}
	}
	c.everywhere("after calls with names that can name nothing", want, d, other)
}
