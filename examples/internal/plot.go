package main

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// The plot: two panels, one above the other, with one axis of time.
const (
	width, height = 960, 640
	left, right   = 70, 200 // margins; names stand in the right one
	panelTop      = 64
	panelHeight   = 232
	panelGap      = 48
)

// panel is one of the diagrams.
type panel struct {
	top    float64
	title  string
	ticks  []float64
	y      func(share float64) float64 // height in the panel, from 0 to 1
	value  func(second) int
	bounds [2]float64
}

// draw returns the plot as an SVG document that needs nothing else.
func draw(runs []*fleetRun) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="13" fill="#222">
<rect width="100%%" height="100%%" fill="#fff"/>
<text x="%d" y="24" font-size="17" font-weight="600">%d instances overload a backend: users ask for %.0f %%, %.0f %%, then %.0f %% of what it can do</text>
`, width, height, left, instances, 100*loadBefore, 100*loadDuring, 100*loadBefore)
	panels := []panel{
		{
			top: panelTop, title: "Goodput, % of capacity", ticks: []float64{0, 0.25, 0.5, 0.75, 1},
			y: func(s float64) float64 { return s / 1.2 }, value: func(s second) int { return s.ok }, bounds: [2]float64{0, 1.2},
		},
		{
			top: panelTop + panelHeight + panelGap, title: "Calls on the wire, % of capacity (each step doubles)", ticks: []float64{0.25, 0.5, 1, 2, 4, 8, 16},
			y: func(s float64) float64 { return (math.Log2(s) + 3) / 8 }, value: func(s second) int { return s.wire }, bounds: [2]float64{0.125, 32},
		},
	}
	for _, p := range panels {
		p.frame(&b)
		for _, r := range runs {
			p.line(&b, r)
		}
		p.names(&b, runs)
	}
	bottom := panels[1].top + panelHeight
	for at := time.Duration(0); at <= theEnd; at += 10 * time.Second {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle">%.0f</text>`+"\n", x(at), bottom+18, at.Seconds())
	}
	fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle">Time, seconds</text>`+"\n</svg>\n", (x(0)+x(theEnd))/2, bottom+38)
	return b.String()
}

// x is where a time stands.
func x(at time.Duration) float64 {
	return left + (width-left-right)*at.Seconds()/theEnd.Seconds()
}

// at is where a share of the capacity stands in a panel.
func (p *panel) at(share float64) float64 {
	return p.top + panelHeight*(1-p.y(min(max(share, p.bounds[0]), p.bounds[1])))
}

// frame draws the axes, the acts and the line of the capacity.
func (p *panel) frame(b *strings.Builder) {
	fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%d" fill="#f4f0ea"/>`+"\n",
		x(overloadAt), p.top, x(recoverAt)-x(overloadAt), panelHeight)
	for _, tick := range p.ticks {
		y := p.at(tick)
		fmt.Fprintf(b, `<line x1="%d" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%.0f</text>`+"\n",
			left, y, x(theEnd), y, left-8, y+4.5, 100*tick)
	}
	y := p.at(1)
	fmt.Fprintf(b, `<line x1="%d" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#222" stroke-dasharray="6 4"/><text x="%.1f" y="%.1f" font-size="12">capacity</text>`+"\n",
		left, y, x(theEnd), y, x(0)+6, y-5)
	fmt.Fprintf(b, `<text x="%d" y="%.1f" font-weight="600">%s</text>`+"\n", left, p.top-8, p.title)
	for _, act := range []struct {
		from, to time.Duration
		name     string
	}{{0, overloadAt, "healthy"}, {overloadAt, recoverAt, "overload"}, {recoverAt, theEnd, "recovery"}} {
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="#777">%s</text>`+"\n", (x(act.from)+x(act.to))/2, p.top+15, act.name)
	}
}

// line draws one run, second by second.
func (p *panel) line(b *strings.Builder, r *fleetRun) {
	var points strings.Builder
	for i, s := range r.series[:theEnd/time.Second] {
		share := float64(p.value(s)) / capacity
		fmt.Fprintf(&points, "%.1f,%.1f ", x(time.Duration(i)*time.Second+time.Second/2), p.at(share))
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2.2" stroke-linejoin="round"/>`+"\n",
		strings.TrimSpace(points.String()), r.color)
}

// names writes each run's name and its share in the overload beside the panel.
func (p *panel) names(b *strings.Builder, runs []*fleetRun) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" fill="#777">in the overload</text>`+"\n", x(theEnd)+16, p.top+46)
	for i, r := range runs {
		y := p.top + 70 + 40*float64(i)
		share := float64(p.value(r.sum(overloadAt, recoverAt))) / capacity / (recoverAt - overloadAt).Seconds()
		fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="4"/><text x="%.1f" y="%.1f">%s</text><text x="%.1f" y="%.1f" font-weight="600">%.0f %%</text>`+"\n",
			x(theEnd)+16, y-4, x(theEnd)+36, y-4, r.color, x(theEnd)+42, y, r.name, x(theEnd)+42, y+17, 100*share)
	}
}
