package comitytest

import "github.com/comity/comity"

// CheckLimiter does what TestLimiter does and returns what it found, by check.
func CheckLimiter(l comity.Limit, new func() comity.Limiter) map[string]error {
	found := make(map[string]error)
	for _, c := range limiterChecks {
		if err := c.check(newTester(l, new)); err != nil {
			found[c.name] = err
		}
	}
	return found
}
