package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/convolog/convolog/examples/convolog/internal/inspect"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// A finding describes one fault or remark in plain words.
type finding struct {
	Kind    string `json:"kind"`
	Agent   string `json:"agent,omitempty"`
	Session string `json:"session,omitempty"`
	File    string `json:"file,omitempty"`
	Offset  int64  `json:"offset,omitempty"` // the place in the file, in bytes
	Size    int64  `json:"size,omitempty"`
	Text    string `json:"text"`
	Way     string `json:"way"` // advice
	// Command, if not empty, is the command of Way for a POSIX shell.
	Command string `json:"command,omitempty"`
	// A Note needs no action.
	Note bool `json:"note,omitempty"`
	// A Repairable finding is repaired by --repair.
	Repairable bool `json:"repairable,omitempty"`
}

// A diagnosis is the result of doctor.
type diagnosis struct {
	Sessions int       `json:"sessions"` // the number of examined sessions
	Repaired []finding `json:"repaired,omitempty"`
	Findings []finding `json:"findings"`
}

// compare is the advice for most damage.
const compare = "compare the place with a copy of the file; the rest of the file is read"

// explanations describe each kind of damage.
var explanations = map[transcript.DamageKind]finding{
	transcript.DamageTorn: {
		Text: "A record is incomplete. If its process was killed, or the disk was full, it was never acknowledged.",
		Way:  "no action is needed; the record stays in the file and is skipped", Note: true,
	},
	transcript.DamageNUL:       {Text: "There are NUL bytes. A power cut leaves them where data had not reached the disk.", Way: "the lost bytes were not yet on stable storage; if you need them, take them from a copy of the file. The rest is read"},
	transcript.DamageUTF8:      {Text: "A record contains bytes that are not UTF-8: the disk or another program has changed it.", Way: compare},
	transcript.DamageNotJSON:   {Text: "This is not JSON: another program or a person has written to the file, or the disk has changed it.", Way: compare},
	transcript.DamageNotObject: {Text: "This is JSON, but not a record: another program or a person has written to the file.", Way: compare},
	transcript.DamageMalformed: {Text: "A record lacks a type, or has a member of the wrong type: another program has written it.", Way: compare},
	transcript.DamageTooLong:   {Text: "A line is too long to read.", Way: "look at the line with another tool; the rest of the file is read"},
	transcript.DamageRepeated:  {Text: "A record has the ID of an earlier record of the file, as after a union of two copies. Only the first one is read.", Way: "if the two differ, compare them with a copy of the file; the second one stays in the file and is skipped", Note: true},
	transcript.DamageCRC:       {Text: "The checksum of a record is wrong: the record was changed after it was written. It is still read.", Way: "compare the record with a copy of the file"},
}

func damaged(d transcript.Damage) finding {
	f, ok := explanations[d.Kind]
	if !ok {
		f = finding{Text: "This is damage of an unknown kind: " + d.Reason + ".", Way: compare}
	}
	f.Kind, f.Offset, f.Size = string(d.Kind), d.Offset, d.Size
	if d.Offset == 0 {
		f.Text += " It is the first record, which names the owner of the conversation."
		f.Way, f.Note = "restore the first line from a copy; until then you can read the session, but perhaps not append to it", false
	}
	return f
}

func doctor(ctx context.Context, c *call) error {
	look := c.examine
	if len(c.args) > 0 {
		if c.url != "" {
			return wrong("doctor looks into files without --url")
		}
		if c.repair {
			return wrong("--repair is for the store of --dir, not for single files")
		}
		look = c.examineFiles
	}
	found, err := look(ctx)
	if err != nil && (!c.repair || ctx.Err() != nil) {
		return err // with --repair continue: a repair may remove the cause of the error
	}
	if c.repair {
		if err := c.backend.repair(ctx); err != nil {
			return err
		}
		before := found.Findings
		if found, err = look(ctx); err != nil {
			return err
		}
		found.Repaired = slices.DeleteFunc(before, func(f finding) bool { return !f.Repairable || slices.Contains(found.Findings, f) })
		for i := range found.Findings {
			if f := &found.Findings[i]; f.Repairable {
				next := "look at the file, and move it away if you do not need it"
				if f.Kind == halfErased.Kind { // only this file lets a later open finish the erase
					next = "delete or erase it again, which reports the reason"
				}
				f.Repairable = false
				f.Way += ". --repair did not help: " + next
			}
		}
	}
	if err := c.value(found, func() { c.explain(found) }); err != nil {
		return err
	}
	if slices.ContainsFunc(found.Findings, func(f finding) bool { return !f.Note }) {
		return errFound
	}
	return nil
}

// examine checks every session of the store and all other files.
func (c *call) examine(ctx context.Context) (d diagnosis, err error) {
	d.Findings = []finding{}
	left, err := c.backend.leftovers(ctx)
	if err != nil {
		return d, err
	}
	infos, err := c.backend.List(ctx, &session.ListOptions{State: session.AnyState})
	if err != nil {
		return d, err
	}
	slices.SortFunc(infos, func(a, b session.Info) int { return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.ID, b.ID)) })
	for _, i := range infos {
		d.Sessions++
		c.progress("%d of %s", d.Sessions, count(len(infos), "session"))
		h, err := c.backend.health(ctx, i.Ref)
		if ctx.Err() != nil {
			return d, ctx.Err()
		}
		found := []finding{}
		renamed := slices.ContainsFunc(left, func(f finding) bool { return f.Kind == conflictCopy && f.File == c.backend.file(i) })
		if err != nil && !renamed {
			found = append(found, finding{Kind: "unreadable", Text: "The session cannot be read: " + err.Error(), Way: "follow the error; otherwise restore the transcript from a copy, or delete the session"})
		}
		for _, damage := range h.Damage {
			found = append(found, damaged(damage))
		}
		if isAhead(i) {
			found = append(found, note("dated-ahead", "The last message has a time in the future: "+stamp(i.UpdatedAt)+". The session comes first in lists, and retention ignores it.", "no action is needed; or delete or archive the session by hand"))
		}
		for n := range found {
			found[n].File = c.backend.file(i)
		}
		for _, f := range append(found, repairsOf(len(h.Repairs))...) {
			f.Agent, f.Session = i.Agent, i.ID
			d.Findings = append(d.Findings, f)
		}
	}
	d.Findings = append(d.Findings, left...)
	return d, nil
}

// repairsOf returns a note on the repairs that a history needs, if any.
func repairsOf(n int) []finding {
	if n == 0 {
		return nil
	}
	f := note("history", fmt.Sprintf("The history needs repairs to be a valid request (%d), such as an error for a missing result.", n),
		"no action is needed: each read makes the repairs, and the file stays unchanged")
	f.Size = int64(n)
	return []finding{f}
}

// examineFiles examines transcripts of any program.
func (c *call) examineFiles(ctx context.Context) (d diagnosis, err error) {
	d.Findings = []finding{}
	var errs []error
	for _, name := range c.args {
		err := c.examineFile(ctx, name, &d)
		if errors.Is(err, dialect.ErrChannelLog) {
			f := note("channel-log", "This is the log of a channel for administrators, not a session.", "package session/serve/zyhive/convlog reads it")
			f.File = name
			d.Findings, err = append(d.Findings, f), nil
		}
		errs = append(errs, err)
	}
	return d, errors.Join(errs...)
}

func (c *call) examineFile(ctx context.Context, name string, d *diagnosis) error {
	return inspect.Each([]string{name}, func(string, *dialect.Folder) error { return nil }, func(f *inspect.Finding) error {
		d.Sessions++
		c.progress("%s", count(d.Sessions, "file"))
		found := []finding{}
		if f.Dialect == "" {
			found = append(found, finding{Kind: "unknown", Text: "This is not a transcript of a known program.", Way: "no command imports it; convolog inspect shows its content"})
		}
		if f.Error != "" {
			found = append(found, finding{Kind: "unreadable", Text: "The file cannot be read to its end: " + f.Error, Way: "restore the file from a copy"})
		}
		for _, damage := range f.Damage {
			found = append(found, damaged(damage))
		}
		for _, one := range append(found, repairsOf(len(f.Repairs))...) {
			one.File, one.Session = f.File, f.Session
			d.Findings = append(d.Findings, one)
		}
		return ctx.Err()
	})
}

func (c *call) explain(d diagnosis) {
	show := func(sign string, f finding) {
		where := cmp.Or(f.File, f.Session)
		if f.Size > 0 && f.Kind != "history" {
			where += fmt.Sprintf(", %s at %d", count(f.Size, "byte"), f.Offset)
		}
		c.print(sign + " " + c.paint(bold, f.Kind) + "  " + printable(where) + "\n")
		c.print(wrap(printable(f.Text), columns) + "\n" + wrap("Way out: "+printable(f.Way)+map[bool]string{true: " (--repair)"}[f.Repairable && sign != "+"]+".", columns) + "\n")
		if f.Command != "" { // unwrapped, to paste
			c.print("\n" + printable(f.Command) + "\n")
		}
		c.print("\n")
	}
	notes := 0
	for _, f := range d.Repaired {
		show(c.paint(green, "+"), f)
	}
	for _, f := range d.Findings {
		if f.Note {
			notes++
			show("-", f)
			continue
		}
		show(c.paint(red, "!"), f)
	}
	c.say("%s: %s, %s, %d repaired.", count(d.Sessions, "session"), count(len(d.Findings)-notes, "finding"), count(notes, "note"), len(d.Repaired))
}
