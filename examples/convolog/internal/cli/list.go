package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/rivo/uniseg"
)

// table prints rows with a header. A row has a cell for each word of the header. On a
// terminal the last cell is cut at the end of the line, unless --full is set.
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
		if left > 0 {
			for _, w := range widths[:len(widths)-1] {
				left = max(1, left-w-2)
			}
		}
		narrow := left > 0 && left < 20
		if narrow { // the last cell is on a line of its own
			left = max(1, c.width()-2)
		}
		if c.full {
			left = 0
		}
		for i, cell := range row {
			if narrow && i == len(row)-1 {
				c.print("\n  ")
			}
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

// short returns the last 8 letters of a UUID, and any other ID as it is. UUIDs of one hour
// begin alike, and these letters are 32 random bits. A command refuses an end that fits two
// sessions.
func short(id string) string {
	if uuid.Validate(id) == nil {
		return id[len(id)-8:]
	}
	return id
}
