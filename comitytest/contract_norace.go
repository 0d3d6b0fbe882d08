//go:build !race

package comitytest

// raceEnabled tells whether a write beside a read is reported, instead of ending
// the program if it hits a map.
const raceEnabled = false
