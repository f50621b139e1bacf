package stdio

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// down returns a result as the host's revision has it. What came with a later
// revision is left out, or said with what there was before.
func (h *host) down(method string, result object) jsontext.Value {
	result.drop("resultType", "ttlMs", "cacheScope")
	if meta := parseObject(result.get("_meta")); meta != nil {
		if meta.drop(metaServerInfo); len(meta) > 0 {
			result.set("_meta", meta.encode())
		} else {
			result.drop("_meta")
		}
	}
	switch method {
	case "tools/list":
		h.downEach(&result, "tools", h.downTool)
	case "resources/list":
		h.downEach(&result, "resources", h.downNamed)
	case "resources/templates/list":
		h.downEach(&result, "resourceTemplates", h.downNamed)
	case "prompts/list":
		h.downEach(&result, "prompts", h.downPrompt)
	case "tools/call":
		h.downEach(&result, "content", h.downContent)
		h.downStructured(&result)
	case "prompts/get":
		h.downEach(&result, "messages", func(m object) object {
			m.change("content", func(v jsontext.Value) jsontext.Value { return h.downContent(parseObject(v)).encode() })
			return m
		})
	}
	return append(object{}, result...).encode()
}

// downEach converts every object of a list.
func (h *host) downEach(o *object, name string, f func(object) object) {
	o.change(name, func(v jsontext.Value) jsontext.Value {
		items := parseArray(v)
		for i, item := range items {
			if member := parseObject(item); member != nil {
				items[i] = f(member).encode()
			}
		}
		return encodeArray(items)
	})
}

// downNamed leaves out how a thing looks and is called where that is not known.
func (h *host) downNamed(o object) object {
	if h.version < revision202511 {
		o.drop("icons")
	}
	if h.version < revision202506 {
		o.drop("title", "_meta")
	}
	return o
}

func (h *host) downTool(o object) object {
	// Hosts of these revisions refuse the whole list for the schema of an answer
	// that is no object. Without it they do not check the answer.
	if h.version < revision202506 || parseObject(o.get("outputSchema")).text("type") != "object" {
		o.drop("outputSchema")
	}
	return h.downNamed(o)
}

func (h *host) downPrompt(o object) object {
	if h.version < revision202506 {
		h.downEach(&o, "arguments", func(a object) object { a.drop("title"); return a })
	}
	return h.downNamed(o)
}

// downContent converts one block of content.
func (h *host) downContent(o object) object {
	if h.version < revision202511 {
		o.drop("icons")
	}
	if h.version < revision202506 && o.text("type") == "resource_link" {
		words := []string{o.text("uri")}
		for _, name := range []string{"title", "name", "description"} {
			if s := o.text(name); s != "" {
				words = append(words, s)
				break
			}
		}
		return object{{"type", quote("text")}, {"text", quote(strings.Join(words, " "))}}
	}
	return o
}

// downStructured makes the structured answer an object, or leaves it out where
// there is none: the same stands in the text.
func (h *host) downStructured(o *object) {
	v := o.get("structuredContent")
	switch {
	case v == nil:
	case h.version < revision202506:
		o.drop("structuredContent")
	case v.Kind() != '{':
		o.set("structuredContent", object{{"value", v}}.encode())
	}
}
