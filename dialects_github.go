package comity

import (
	"net/http"
	"strings"
)

// gitHubResource returns the resource of GitHub's REST and GraphQL API that a
// request spends, as X-RateLimit-Resource will name it; "" for /rate_limit, which
// spends none. GitHub Enterprise Server has the same routes below /api/v3.
func gitHubResource(req *http.Request) string {
	path := strings.TrimPrefix(req.URL.Path, "/api/v3")
	switch path {
	case "/graphql", "/api/graphql":
		return "graphql"
	case "/rate_limit":
		return ""
	}
	if strings.HasPrefix(path, "/search/") {
		if path == "/search/code" {
			return "code_search"
		}
		return "search"
	}
	for _, r := range gitHubRoutes {
		if strings.HasPrefix(path, r.prefix) && strings.HasSuffix(path, r.suffix) &&
			(r.method == "" || r.method == req.Method) {
			return r.resource
		}
	}
	return "core"
}

var gitHubRoutes = [...]struct{ method, prefix, suffix, resource string }{
	{http.MethodPost, "/app-manifests/", "/conversions", "integration_manifest"},
	{http.MethodPut, "/repos/", "/import", "source_import"},
	{http.MethodPost, "/repos/", "/code-scanning/sarifs", "code_scanning_upload"},
	{http.MethodPost, "/repos/", "/dependency-graph/snapshots", "dependency_snapshots"},
	{http.MethodGet, "/repos/", "/dependency-graph/sbom", "dependency_sbom"},
	{http.MethodPost, "/", "/actions/runners/registration-token", "actions_runner_registration"},
	{"", "/scim/", "", "scim"},
	{http.MethodGet, "/", "/audit-log", "audit_log"},
}
