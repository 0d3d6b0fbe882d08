package interop

import (
	"flag"
	"os"
	"testing"
)

// Tests here wait for servers rather than compute, so more of them run at once
// than there are cores, unless -parallel says otherwise.
func TestMain(m *testing.M) {
	flag.Parse()
	told := false
	flag.Visit(func(f *flag.Flag) { told = told || f.Name == "test.parallel" })
	if !told {
		if err := flag.Set("test.parallel", "16"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
