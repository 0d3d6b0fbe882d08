module github.com/comity/comity/examples/breaker

go 1.26.0

replace github.com/comity/comity => ../..

require (
	github.com/comity/comity v0.0.0-00010101000000-000000000000
	github.com/sony/gobreaker/v2 v2.4.0
)

require (
	github.com/cenkalti/backoff/v4 v4.3.0 // indirect
	golang.org/x/time v0.16.0 // indirect
)
