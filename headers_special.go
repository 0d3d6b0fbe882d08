package comity

import (
	"strings"
	"time"
)

// special reads a field of a shape that only one provider has, line by line.
func (p *parser) special(f *field) {
	for i, line := range f.lines {
		if i == maxLines {
			p.flag(f)
			return
		}
		switch f.kind {
		case kindShopify:
			p.usedOf(f, "", line)
		case kindAmazon:
			p.amazon(f, line)
		case kindSalesforce:
			p.entries(f, line, ';')
		default:
			p.entries(f, line, ',')
		}
	}
}

// entries reads each entry of a list.
func (p *parser) entries(f *field, list string, sep byte) {
	left := maxList
	for n, more := 0, true; more; n++ {
		entry := list
		i := strings.IndexByte(list[:min(len(list), left+1)], sep)
		if more = i >= 0; more {
			entry, list = list[:i], list[i+1:]
		}
		if left -= len(entry) + 1; left < -1 || n == maxQuotas {
			p.flag(f)
			return
		}
		entry = trim(entry)
		switch f.kind {
		case kindSalesforce:
			p.salesforce(f, entry)
		case kindSentry:
			p.sentry(f, entry)
		case kindResource:
			p.resource(f, entry)
		}
	}
}

// usedOf reads used/limit.
func (p *parser) usedOf(f *field, name, s string) {
	u, l, ok := strings.Cut(trim(s), "/")
	used, _, ok1 := count(trim(u))
	limit, _, ok2 := count(trim(l))
	if !ok || !ok1 || !ok2 {
		p.flag(f)
		return
	}
	r := p.add(f, name)
	r.Limit, r.Remaining = limit, max(limit-used, 0)
}

// salesforce reads name=used/limit; what is in parentheses names an application.
func (p *parser) salesforce(f *field, entry string) {
	entry, _, _ = strings.Cut(entry, "(")
	name, value, _ := strings.Cut(entry, "=")
	p.usedOf(f, trim(name), value)
}

// sentry reads seconds:categories:scope:reason, where no category means all.
func (p *parser) sentry(f *field, entry string) {
	seconds, rest, _ := strings.Cut(entry, ":")
	categories, _, _ := strings.Cut(rest, ":")
	d, form := p.clock.read(seconds, maxReset, false)
	if form == noForm {
		p.flag(f)
		return
	}
	r := p.add(f, trim(categories))
	r.Remaining, r.Reset = 0, d
}

// resource reads name;remaining of Azure Resource Manager.
func (p *parser) resource(f *field, entry string) {
	name, value, _ := strings.Cut(entry, ";")
	n, _, ok := count(trim(value))
	if name = trim(name); !ok || name == "" {
		p.flag(f)
		return
	}
	r := p.add(f, name)
	r.Remaining = n
}

// amazon reads a rate: requests per second, often below one.
func (p *parser) amazon(f *field, s string) {
	n, frac, ok := count(trim(s))
	if !ok {
		p.flag(f)
		return
	}
	r := p.add(f, "")
	r.Limit, r.frac = wholeLimit(n, frac)
	r.Window, r.stated = time.Second, true
}
