// Package near answers: which name was meant?
package near

// longest bounds what is compared: no name is longer, and a stranger's word may be.
const longest = 64

// Name returns the known name that takes the fewest letters to add, drop or change, the first of several that take as
// few; "" if that is more than most. Names are ASCII: it counts bytes.
func Name(name string, known []string, most int) string {
	best, fewest := "", 0
	for _, candidate := range known {
		if n := slips(name, candidate); n <= most && (best == "" || n < fewest) {
			best, fewest = candidate, n
		}
	}
	return best
}

// slips is Levenshtein's distance. What is longer than any name is as far as it is long.
func slips(a, b string) int {
	if len(a) > longest {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0]++
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
