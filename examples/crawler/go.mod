module github.com/comity/comity/examples/crawler

go 1.26.0

replace github.com/comity/comity => ../..

require (
	github.com/comity/comity v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	github.com/temoto/robotstxt v1.1.2
)

require (
	github.com/cenkalti/backoff/v4 v4.3.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/time v0.16.0 // indirect
)
