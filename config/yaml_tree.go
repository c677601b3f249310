package config

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// yamlValue is what stands after one key, or one item of a list.
type yamlValue struct {
	key, name string // with the section before it, and without
	line      int
	node      ast.Node // nil, or a null, if nothing stands there
	class     string   // the Java class or other tag before it
	inBraces  bool     // in a mapping written as {a: b}
}

// String returns the key and its line, as errors show it.
func (v yamlValue) String() string { return fmt.Sprintf("%s (line %d)", v.key, v.line) }

func (v yamlValue) empty() bool {
	_, null := v.node.(*ast.NullNode)
	return v.node == nil || null
}

// is reports whether the value is of a Java class of this name, in whatever package.
func (v yamlValue) is(class string) bool {
	return v.class == class || strings.HasSuffix(v.class, "."+class)
}

// yamlTree is the YAML as parsed. The parser's own errors are not passed on as they are, for they quote the text around the fault.
type yamlTree struct {
	anchors map[string]ast.Node
	unset   map[string]bool // variables that are used somewhere but not set
	// properties are variables with a name as Java's system properties have it, for which a default was taken.
	properties map[string]bool
}

var (
	// variable is what Redisson takes for one, but with an empty default allowed.
	variable = regexp.MustCompile(`\$\{([\w.]+)(:-[^}\n]*)?\}`)
	// plainKey is what a key of Redisson's could look like.
	plainKey = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*([._-][A-Za-z0-9]+)*$`)
	// javaClass is what may be shown of a tag.
	javaClass = regexp.MustCompile(`^[\w.$]{1,200}$`)
)

func (y *yamlTree) parse(text string) (yamlValue, *FieldError) {
	text = y.expand(strings.TrimPrefix(text, "\ufeff"))
	switch {
	case len(text) > maxYAML:
		return yamlValue{}, yamlFault("too long", fmt.Sprintf("up to %d bytes", maxYAML))
	case nesting(text) > maxNesting:
		return yamlValue{}, yamlFault("nested too deep", fmt.Sprintf("up to %d brackets and braces within each other", maxNesting))
	}
	file, err := parser.ParseBytes([]byte(text), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return yamlValue{}, y.syntaxFault(err)
	}
	var root yamlValue
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if root.node != nil {
			return root, yamlFault("with more than one document", "one document")
		}
		root.node = doc.Body
		y.anchors = map[string]ast.Node{}
		ast.Walk(y, doc.Body)
	}
	root = y.resolve(root)
	if _, mapping := root.node.(ast.MapNode); root.node != nil && !mapping {
		return root, yamlFault("no mapping of keys to values", "lines such as: singleServerConfig:")
	}
	return root, nil
}

// maxNesting is for the parser's sake too: ten thousand open brackets keep it busy for seconds.
const maxNesting = 100

// nesting returns how deep brackets and braces are nested, those in quotes and comments counted as well.
func nesting(text string) int {
	depth, deepest := 0, 0
	for _, b := range []byte(text) {
		switch b {
		case '[', '{':
			depth++
			deepest = max(deepest, depth)
		case ']', '}':
			depth = max(depth-1, 0)
		}
	}
	return deepest
}

func yamlFault(value, allowed string) *FieldError {
	return &FieldError{Field: "the YAML", Value: value, Allowed: allowed}
}

// syntaxFault says where the text is no YAML. The parser's messages are fixed words but for those that quote something.
func (y *yamlTree) syntaxFault(err error) *FieldError {
	value := "not readable"
	if at, ok := err.(yaml.Error); ok { //nolint:errorlint // the parser returns it as it is; a wrapped one would have another message
		if t := at.GetToken(); t != nil && t.Position != nil {
			value = fmt.Sprintf("not readable at line %d, column %d", t.Position.Line, t.Position.Column)
		}
		if message := at.GetMessage(); !strings.ContainsAny(message, "\"\n") {
			value += " (" + message + ")"
		}
	}
	allowed := "YAML, with quotes around a variable whose value has special characters"
	if len(y.unset) > 0 {
		allowed += "; not set are " + strings.Join(slices.Sorted(maps.Keys(y.unset)), ", ")
	}
	return yamlFault(value, allowed)
}

// expand replaces variables once, as Redisson does: what comes out of a variable is not looked through again. Those that are
// not set stay, since they may stand in a comment.
func (y *yamlTree) expand(text string) string {
	y.unset, y.properties = map[string]bool{}, map[string]bool{}
	return variable.ReplaceAllStringFunc(text, func(whole string) string {
		m := variable.FindStringSubmatch(whole)
		if value, set := os.LookupEnv(m[1]); set {
			return value
		}
		if m[2] != "" {
			if strings.Contains(m[1], ".") {
				y.properties[m[1]] = true
			}
			return strings.TrimPrefix(m[2], ":-")
		}
		y.unset[m[1]] = true
		return whole
	})
}

// Visit notes the anchors while the tree is walked.
func (y *yamlTree) Visit(n ast.Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok && a.Name != nil && a.Name.GetToken() != nil {
		y.anchors[a.Name.GetToken().Value] = a.Value
	}
	return y
}

// maxDepth ends anchors that contain themselves; nothing in a configuration is nested as deep.
const maxDepth = 20

// resolve follows anchors, aliases and tags to the value itself.
func (y *yamlTree) resolve(v yamlValue) yamlValue {
	for range maxDepth {
		switch n := v.node.(type) {
		case *ast.TagNode:
			v.class, v.node = classOf(n), n.Value
		case *ast.AnchorNode:
			v.node = n.Value
		case *ast.AliasNode:
			v.node = nil
			if n.Value != nil && n.Value.GetToken() != nil {
				v.node = y.anchors[n.Value.GetToken().Value]
			}
		default:
			return v
		}
	}
	v.node = nil
	return v
}

// classOf returns the name in a tag, which Redisson takes in three forms: !<a.b.C>, !a.b.C and !!a.b.C.
func classOf(n *ast.TagNode) string {
	if n.GetToken() == nil {
		return ""
	}
	name := strings.TrimRight(strings.TrimLeft(n.GetToken().Value, "!<"), ">")
	if !javaClass.MatchString(name) {
		return "(not shown)"
	}
	return name
}

// entries returns what stands in a mapping, in the order of the file, and what is merged into it before that; nothing if it is no mapping.
func (y *yamlTree) entries(v yamlValue) []yamlValue { return y.entriesBelow(v, 0) }

func (y *yamlTree) entriesBelow(v yamlValue, depth int) []yamlValue {
	mapping, ok := v.node.(ast.MapNode)
	if !ok || depth > maxDepth {
		return nil
	}
	var own, merged []yamlValue
	for pair := mapping.MapRange(); pair.Next(); {
		if _, merges := pair.Key().(*ast.MergeKeyNode); merges {
			from := y.resolve(yamlValue{key: v.key, node: pair.Value()})
			merged = append(merged, y.entriesBelow(from, depth+1)...)
			continue
		}
		entry := y.entry(v, pair)
		// The parser gives a tag without a value all lines below it, also those that are no deeper and so belong beside it.
		if below := firstKey(entry.node); entry.class != "" && below != nil && below.Position.Column <= column(pair.Key()) {
			taken := yamlValue{key: v.key, node: entry.node}
			entry.node = nil
			own = append(append(own, entry), y.entriesBelow(taken, depth+1)...)
			continue
		}
		own = append(own, entry)
	}
	return append(slices.DeleteFunc(merged, func(m yamlValue) bool {
		return slices.ContainsFunc(own, func(o yamlValue) bool { return o.name == m.name })
	}), own...)
}

func (y *yamlTree) entry(in yamlValue, pair *ast.MapNodeIter) yamlValue {
	v := yamlValue{line: in.line, node: pair.Value()}
	if mapping, ok := in.node.(*ast.MappingNode); ok {
		v.inBraces = mapping.IsFlowStyle
	}
	key := pair.Key().GetToken()
	if complicated, ok := pair.Key().(*ast.MappingKeyNode); ok && complicated.Value != nil {
		key = complicated.Value.GetToken()
	}
	if key != nil {
		v.name = key.Value
		if key.Position != nil {
			v.line = key.Position.Line
		}
	}
	v.key = strings.TrimPrefix(in.key+"."+v.name, ".")
	return y.resolve(v)
}

// firstKey returns the first key of a mapping that is written in lines.
func firstKey(n ast.Node) *token.Token {
	mapping, ok := n.(*ast.MappingNode)
	if !ok || mapping.IsFlowStyle || len(mapping.Values) == 0 {
		return nil
	}
	key := mapping.Values[0].Key.GetToken()
	if key == nil || key.Position == nil {
		return nil
	}
	return key
}

func column(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Column
	}
	return 0
}

// items returns the items of a list, or the keys of a set; false if it is neither.
func (y *yamlTree) items(v yamlValue) ([]yamlValue, bool) {
	if list, ok := v.node.(*ast.SequenceNode); ok {
		items := make([]yamlValue, 0, len(list.Values))
		for _, n := range list.Values {
			item := yamlValue{key: v.key, line: v.line, node: n}
			if t := n.GetToken(); t != nil && t.Position != nil {
				item.line = t.Position.Line
			}
			items = append(items, y.resolve(item))
		}
		return items, true
	}
	if v.class != "set" {
		return nil, false
	}
	var items []yamlValue
	for _, entry := range y.entries(v) {
		word := ast.String(token.New(entry.name, entry.name, &token.Position{Line: entry.line}))
		items = append(items, yamlValue{key: v.key, line: entry.line, node: word})
	}
	return items, true
}

// scalar returns the text of a value as it is written, without quotes; false for a mapping or a list. Nothing and null are "".
func scalar(v yamlValue) (string, bool) {
	if v.empty() {
		return "", true
	}
	switch n := v.node.(type) {
	case *ast.LiteralNode:
		if n.Value == nil {
			return "", true
		}
		return n.Value.Value, true
	case ast.ScalarNode:
		if t := n.GetToken(); t != nil {
			return t.Value, true
		}
	}
	return "", false
}
