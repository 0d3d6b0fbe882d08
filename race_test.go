//go:build race

package comity

const raceEnabled = true
