package comitytest

// ClauseNames lists the clauses of TestRoundTripper.
func ClauseNames() []string {
	var names []string
	for _, c := range clauses() {
		names = append(names, c.name)
	}
	return names
}
