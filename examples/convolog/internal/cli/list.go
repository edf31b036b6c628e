package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rivo/uniseg"

	"github.com/convolog/convolog/session"
)

// table prints rows with a header. A row has a cell for each word of the header. On a
// terminal the last cell is cut at the end of the line.
func (c *call) table(header string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	all := append([][]string{strings.Fields(header)}, rows...)
	widths := make([]int, len(all[0]))
	for _, row := range all {
		for i := range row {
			row[i] = cut(row[i], 0)
			widths[i] = max(widths[i], uniseg.StringWidth(row[i]))
		}
	}
	for n, row := range all {
		left := c.width()
		if left > 0 { // at least one column for the last cell
			for _, w := range widths[:len(widths)-1] {
				left = max(1, left-w-2)
			}
		}
		for i, cell := range row {
			switch pad := strings.Repeat(" ", widths[i]-uniseg.StringWidth(cell)) + "  "; {
			case i == len(row)-1:
				c.print(c.paint(map[bool]string{true: faint}[n == 0], cut(cell, left)) + "\n")
			case n == 0:
				c.print(c.paint(faint, cell) + pad)
			default:
				c.print(c.paint(map[bool]string{true: bold}[i == 0], cell) + pad)
			}
		}
	}
}

// age returns the time since t in one unit, or the date if that is shorter.
func age(t, now time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return "-"
	case d < 0 || d >= 30*24*time.Hour:
		return t.Local().Format(time.DateOnly)
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", d/time.Minute)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h ago", d/time.Hour)
	default:
		return count(int64(d/(24*time.Hour)), "day") + " ago"
	}
}

// shortener returns a function that shortens the ID of a session to its end, which names
// one session of the store. The IDs of sessions of one hour begin alike.
func (c *call) shortener(ctx context.Context) (func(id string) string, error) {
	infos, err := c.backend.List(ctx, &session.ListOptions{State: session.EveryState})
	ids := make([]string, len(infos))
	for i := range infos {
		ids[i] = infos[i].ID
	}
	n := shortest(ids)
	return func(id string) string { return end(id, n) }, err
}

// end returns the last n bytes of a long ID, and all of an ID that a person can type.
func end(id string, n int) string {
	if len(id) <= 16 {
		return id
	}
	return id[max(0, len(id)-n):]
}

// shortest returns a length from 8 on. The end of this length of any ID is the end or the
// beginning of no other ID.
func shortest(ids []string) int {
	longest := len(slices.MaxFunc(append(ids, ""), func(a, b string) int { return len(a) - len(b) }))
	n := 8
	for ; n < longest; n++ {
		ends := make(map[string]string, len(ids))
		for _, id := range ids {
			ends[id[max(0, len(id)-n):]] = id
		}
		if len(ends) == len(ids) && !slices.ContainsFunc(ids, func(id string) bool {
			other, found := ends[id[:min(n, len(id))]]
			return found && other != id
		}) {
			break
		}
	}
	return n
}
