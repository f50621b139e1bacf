package bgp

import (
	"fmt"
	"strings"
)

// knownNames words the names there are, for an error: the nearest first.
func knownNames(wrong string, names []string) string {
	list := known("none is configured", names)
	if near := nearest(wrong, names); near != "" {
		return fmt.Sprintf("did you mean %s? %s", near, list)
	}
	return list
}

// known lists names, but no more than a person wants to read.
func known(none string, names []string) string {
	const shown = 10
	switch {
	case len(names) == 0:
		return none
	case len(names) > shown:
		return fmt.Sprintf("known are %s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}
	return "known are " + strings.Join(names, ", ")
}

// nearest returns the name that at most a third of its letters keep from being
// wrong, or "".
func nearest(wrong string, known []string) string {
	best, limit := "", max(1, len(wrong)/3)
	for _, name := range known {
		if d := editDistance(wrong, name); d <= limit {
			best, limit = name, d-1
		}
	}
	return best
}

// editDistance is the Levenshtein distance in octets.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
