//go:build race

package comity

// With the race detector a simulation is 25 times slower and finds nothing: it has
// one goroutine.
const raceEnabled = true
