// Package interop holds tests only: the Transport against rate limiters that
// others wrote, each in a real server on a loopback port.
//
// A server that is not installed skips its tests with a line that says what to
// install; COMITY_REQUIRE_SERVERS=1 makes that a failure.
package interop
