package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// result is what the document's table says of a cell.
func (c *cell) result() string {
	if c.NotRun != "" {
		return "not run: " + c.NotRun
	}
	counts := []string{fmt.Sprintf("%d passed", c.Passed)}
	for i, d := range differences {
		if n := c.Known[d.name]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d differ [%d]", n, i+1))
		}
	}
	if len(c.Failed) > 0 {
		counts = append(counts, fmt.Sprintf("**%d failed**", len(c.Failed)))
	}
	return strings.Join(counts, ", ")
}

// document is what the run says of compatibility, in Markdown.
func (m *matrix) document() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Compatibility\n\n"+
		"Written by `make matrix`. The cells ran on %s, in %v, not necessarily in one go. Each figure is the number of checks\n"+
		"that passed: a topic of the interop tests in one direction, Go acting and Java seeing it or the other way round, with\n"+
		"servers and a JVM started for the cell. In brackets is the known difference, see below, that others showed.\n\n",
		m.days(), m.took().Round(time.Second))
	fmt.Fprintf(&b, "| Redisson | server | %s |\n| --- | --- |%s\n", strings.Join(m.topologies, " | "), strings.Repeat(" --- |", len(m.topologies)))
	for _, redisson := range m.redissons {
		for _, server := range m.servers {
			fmt.Fprintf(&b, "| %s | %s |", redisson, serverName(server))
			for _, c := range m.cells {
				if c.Redisson == redisson && c.Server == server {
					fmt.Fprintf(&b, " %s |", c.result())
				}
			}
			b.WriteByte('\n')
		}
	}
	m.describeDifferences(&b)
	m.describeFailures(&b)
	b.WriteString("\n## Topics\n\nWhat each cell runs, unless a difference above says that there is no such lock. " +
		"`make interop` runs all topics with the newest of these releases.\n\n")
	for _, topic := range selection {
		fmt.Fprintf(&b, "- %s\n", topic)
	}
	return b.String()
}

// days are that of the first cell and that of the last one.
func (m *matrix) days() string {
	var days []string
	for _, c := range m.cells {
		if c.Day != "" {
			days = append(days, c.Day)
		}
	}
	slices.Sort(days)
	days = slices.Compact(days)
	if len(days) == 0 {
		return "no day"
	}
	if len(days) == 1 {
		return days[0]
	}
	return days[0] + " to " + days[len(days)-1]
}

func (m *matrix) took() (sum time.Duration) {
	for _, c := range m.cells {
		sum += c.Took
	}
	return sum
}

func serverName(version string) string {
	if number, isValkey := strings.CutPrefix(version, "valkey-"); isValkey {
		return "Valkey " + number
	}
	return "Redis " + version
}

func (m *matrix) describeDifferences(b *strings.Builder) {
	b.WriteString("\n## Known differences\n\n| | Redisson | what | why | what to do | seen in this run |\n| --- | --- | --- | --- | --- | --- |\n")
	for i, d := range differences {
		fmt.Fprintf(b, "| [%d] | %s | %s | %s | %s | %s |\n", i+1, d.releases(), d.what, d.reason, d.workaround, m.sightings(d))
	}
}

// releases are those that a difference is about.
func (d *difference) releases() string {
	var bounds []string
	if d.from != "" {
		bounds = append(bounds, "from "+d.from)
	}
	if d.before != "" {
		bounds = append(bounds, "before "+d.before)
	}
	if d.topology != "" {
		bounds = append(bounds, "on a "+d.topology)
	}
	if len(bounds) == 0 {
		return "all"
	}
	return strings.Join(bounds, ", ")
}

func (m *matrix) sightings(d *difference) string {
	var checks, topics, cells int
	for _, c := range m.cells {
		if c.NotRun != "" || !d.concerns(c) {
			continue
		}
		cells++
		checks += c.Known[d.name]
		topics += c.Absent[d.name]
	}
	switch {
	case cells == 0:
		return "no cell of it ran"
	case d.absent:
		return fmt.Sprintf("%d topics left out of each of %d cells", topics/cells, cells)
	case d.untried:
		return "not tried here"
	case len(d.topics) == 0:
		return fmt.Sprintf("in force in %d cells", cells)
	default:
		return fmt.Sprintf("%d checks of %d cells", checks, cells)
	}
}

func (m *matrix) describeFailures(b *strings.Builder) {
	if !slices.ContainsFunc(m.cells, func(c *cell) bool { return len(c.Failed) > 0 }) {
		return
	}
	b.WriteString("\n## Failures\n\n")
	for _, c := range m.cells {
		for _, failed := range c.Failed {
			fmt.Fprintf(b, "- %s: %s\n", c, failed)
		}
	}
}
