package sessiontest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/convolog/convolog/session/driver"
)

// Rules that package driver does not state.
const (
	textNames = "Any text that is not empty may be the name of an agent or a key, and names that are not equal byte for byte are different ones."
	textEmpty = "The names of agents and keys are not empty: otherwise nothing is created."
	textBadID = "An ID that is empty, is longer than 255 bytes, or has slashes or control characters in it is refused, and nothing is created."
)

var nameRules = []Rule{
	{"name/agent", textNames, nameAgent},
	{"name/key", textNames, nameKey},
	{"name/empty", textEmpty, nameEmpty},
	{"name/id", "Ref names a session: its ID is unique within its agent.", nameID},
	{"name/bad-id", textBadID, nameBadID},
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
		if row.Agent != name {
			c.errorf("Create: the agent %q becomes %q", name, row.Agent)
		}
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
		c.calling("LoadOrCreate")
		row, created, err := d.LoadOrCreate(c.ctx, "main", name, header("main", name, c.id()))
		c.noErr("LoadOrCreate", err)
		if !created || row.Key != name {
			c.errorf("LoadOrCreate of the new key %q: the session of key %q, created %v", name, row.Key, created)
		}
		ids[name] = row.ID
	}
	look := func(when string, d driver.Driver) {
		for _, name := range names {
			c.wantCurrent(fmt.Sprintf("of key %q, %s", name, when), d, "main", name, ids[name])
		}
		for _, row := range c.list(d, "main") {
			if ids[row.Key] != row.ID {
				c.errorf("%s List has session %s under key %q", when, row.ID, row.Key)
			}
		}
	}
	look("after LoadOrCreate", d)
	look("after opening the storage again", c.restart())
}

func nameEmpty(c *check) {
	d := c.start()
	c.create(d, "main", "k")
	for _, name := range [][2]string{{"", "k"}, {"main", ""}, {"", ""}} {
		c.calling("Create")
		_, err := d.Create(c.ctx, name[0], name[1], header(name[0], name[1], c.id()))
		if err == nil {
			c.errorf("Create of agent %q, key %q: no error", name[0], name[1])
		}
		_, created, err := d.LoadOrCreate(c.ctx, name[0], name[1], header(name[0], name[1], c.id()))
		if err == nil || created {
			c.errorf("LoadOrCreate of agent %q, key %q: error %v, created %v", name[0], name[1], err, created)
		}
	}
	c.wantAgents("after a Create that was refused", d, []string{"main"})
	if rows := c.list(d, "main"); len(rows) != 1 {
		c.errorf("a Create that was refused left %d sessions", len(rows)-1)
	}
}

func nameID(c *check) {
	d := c.start()
	refs := []driver.Ref{
		c.createID(d, "main", "k", "same").Ref(),
		c.createID(d, "other", "k", "same").Ref(),
		c.createID(d, "main", "k", "same-2").Ref(),
	}
	// A driver may refuse upper case, but not take it for lower case.
	if row, err := d.Create(c.ctx, "main", "k", header("main", "k", "SAME")); err == nil {
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
			row, err := d.Get(c.ctx, ref)
			c.noErr("Get", err)
			if row.Ref() != ref {
				c.errorf("Get of %+v returns the row of %+v", ref, row.Ref())
			}
		}
	}
	look(d)
	look(c.restart())
}

func nameBadID(c *check) {
	d := c.start()
	row := c.create(d, "main", "k")
	before := c.list(d, "main")
	for _, id := range []string{
		"", "../../x", "..", ".", "/", "/x", "a/b", "a/", "a\\b", "\\", "a\x00b", "\x00", "a\nb", "\n",
		strings.Repeat("x", 300), strings.Repeat("../", 100) + "x",
	} {
		ref := driver.Ref{Agent: "main", ID: id}
		c.calling("Create")
		if _, err := d.Create(c.ctx, "main", "k", header("main", "k", id)); err == nil {
			c.errorf("Create with ID %.20q: no error", id)
		}
		if _, created, err := d.LoadOrCreate(c.ctx, "main", "new key", header("main", "new key", id)); err == nil || created {
			c.errorf("LoadOrCreate with ID %.20q: error %v, created %v", id, err, created)
		}
		for _, m := range sessionMethods {
			c.calling(m.name)
			if err := m.call(c, c.ctx, d, ref); err == nil {
				c.errorf("%s of a session with ID %.20q: no error", m.name, id)
			}
		}
	}
	c.wantRows("after IDs that were refused", c.list(d, "main"), before)
	c.wantAgents("after IDs that were refused", d, []string{"main"})
	c.wantCurrent("after IDs that were refused", d, "main", "k", row.ID)
}
