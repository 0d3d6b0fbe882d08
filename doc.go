// Package comity keeps outbound HTTP calls inside the limits of the services
// they go to. A [Transport] paces calls to each destination, listens to what
// servers say in Retry-After and rate-limit headers, throttles itself when they
// refuse, and retries what is safe to retry.
package comity
