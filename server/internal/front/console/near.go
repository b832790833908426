package console

import "github.com/eiderhq/eider"

// maxNear bounds the names that a misspelt one is compared with: a hint isn't worth more.
const maxNear = 1000

// nearest returns the known name that a misspelt one was probably meant to be, "" if none is close.
func nearest(name string, known []eider.Summary) string {
	best, least := "", min(2, len(name)/2)+1
	for _, s := range known[:min(len(known), maxNear)] {
		if d := distance(name, s.Service); d < least {
			best, least = s.Service, d
		}
	}
	return best
}

// distance counts the letters to insert, delete or replace (Levenshtein).
func distance(a, b string) int {
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
			row[j+1] = min(cost, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
