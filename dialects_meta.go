package comity

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"
)

// readMeta reads X-App-Usage and X-Ad-Account-Usage, counters in percent, and
// X-Business-Use-Case-Usage, such counters for each kind of call of an account.
// They count in "percent": what a call takes of one is not known, so that they
// pace nothing, but one that is used up explains a refusal.
func readMeta(x *extra) {
	for _, name := range [...]string{"x-app-usage", "x-page-usage"} {
		if key, lines := linesOf(x.h, name); len(lines) > 0 {
			var usage map[string]any
			if json.Unmarshal([]byte(capList(lines[0])), &usage) != nil {
				x.flag(key)
				continue
			}
			x.percent("", usage)
		}
	}
	key, lines := linesOf(x.h, "x-business-use-case-usage")
	if len(lines) == 0 {
		return
	}
	var accounts map[string][]map[string]any
	if json.Unmarshal([]byte(capList(lines[0])), &accounts) != nil {
		x.flag(key)
		return
	}
	for _, id := range slices.Sorted(maps.Keys(accounts)) {
		for _, usage := range accounts[id] {
			kind, _ := usage["type"].(string)
			x.percent(kind+" ", usage)
		}
	}
}

// percent adds a quota for each counter of a use. The time until access is
// regained is in minutes.
func (x *extra) percent(prefix string, usage map[string]any) {
	reset := time.Duration(-1)
	if minutes, ok := usage["estimated_time_to_regain_access"].(float64); ok && minutes > 0 && minutes <= horizon.Minutes() {
		reset = time.Duration(math.Ceil(minutes)) * time.Minute
	}
	for _, counter := range [...]string{"call_count", "total_time", "total_cputime"} {
		used, ok := usage[counter].(float64)
		if !ok || used < 0 || !isName(trim(prefix+counter)) {
			continue
		}
		q := Quota{Name: trim(prefix + counter), Unit: "percent", Limit: 100, Remaining: 100 - int64(min(math.Ceil(used), 100)), Window: -1, Reset: -1}
		if q.Remaining == 0 {
			q.Reset = reset
		}
		x.add(q)
	}
}
