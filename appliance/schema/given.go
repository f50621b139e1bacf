package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// checkGiven holds v against a schema that is not ours.
func (o *Object) checkGiven(v any) []Problem {
	if p := unwieldy(v, ""); p != nil {
		return []Problem{*p}
	}
	err := o.compiled.Validate(v)
	if err == nil {
		return nil
	}
	var failure *jsonschema.ValidationError
	if !errors.As(err, &failure) {
		return []Problem{{Message: err.Error()}}
	}
	return givenProblems(nil, o, v, failure)
}

// unwieldy looks for numbers that exact arithmetic could not hold: 1e999999999
// has a billion digits.
func unwieldy(v any, field string) *Problem {
	switch v := v.(type) {
	case json.Number:
		_, exponent, _ := strings.Cut(strings.ToLower(string(v)), "e")
		e, err := strconv.Atoi(exponent)
		if len(v) > 2*maxDigits || exponent != "" && (err != nil || e > 400 || e < -400) {
			return &Problem{Field: field, Message: show(v) + " is not a number that can be handled", Allowed: "a number of ordinary size"}
		}
	case []any:
		for i, item := range v {
			if p := unwieldy(item, fmt.Sprintf("%s[%d]", field, i)); p != nil {
				return p
			}
		}
	case map[string]any:
		for name, item := range v {
			if p := unwieldy(item, joinField(field, name)); p != nil {
				return p
			}
		}
	}
	return nil
}

func joinField(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

// givenProblems turns the library's tree of failures into Problems. Where a
// value fits none of several forms, why it does not fit each of them is noise.
func givenProblems(found []Problem, o *Object, v any, failure *jsonschema.ValidationError) []Problem {
	field, value := follow(v, failure.InstanceLocation)
	add := func(field, message, allowed string) {
		found = append(found, Problem{Field: field, Message: message, Allowed: allowed})
	}
	switch k := failure.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			p := Problem{Field: joinField(field, name), Message: "is required"}
			if n := o.Param(name); n != nil && field == "" {
				p.Allowed = n.Allowed()
			}
			found = append(found, p)
		}
	case *kind.AdditionalProperties:
		names := o.root().ChildNames()
		for _, name := range k.Properties {
			p := Problem{Field: joinField(field, name), Message: "is unknown"}
			if field == "" && len(names) > 0 {
				p.Allowed, p.Suggest = "one of "+strings.Join(names, ", "), Nearest(name, names)
			}
			found = append(found, p)
		}
	case *kind.Type:
		add(field, show(value)+" has the wrong type", orList(k.Want))
	case *kind.Enum:
		add(field, show(value)+" is not a known value", "one of "+literals(k.Want))
	case *kind.Const:
		add(field, show(value)+" is not the allowed value", literals([]any{k.Want}))
	case *kind.Pattern:
		add(field, show(value)+" does not have the allowed form", "text matching "+k.Want)
	case *kind.MinLength:
		add(field, show(value)+" has "+count(k.Got, "character"), "at least "+count(k.Want, "character"))
	case *kind.MaxLength:
		add(field, show(value)+" has "+count(k.Got, "character"), "at most "+count(k.Want, "character"))
	case *kind.MinItems:
		add(field, "has "+count(k.Got, "value"), "at least "+count(k.Want, "value"))
	case *kind.MaxItems:
		add(field, "has "+count(k.Got, "value"), "at most "+count(k.Want, "value"))
	case *kind.Minimum:
		add(field, show(value)+" is out of range", "at least "+k.Want.RatString())
	case *kind.Maximum:
		add(field, show(value)+" is out of range", "at most "+k.Want.RatString())
	case *kind.ExclusiveMinimum:
		add(field, show(value)+" is out of range", "more than "+k.Want.RatString())
	case *kind.ExclusiveMaximum:
		add(field, show(value)+" is out of range", "less than "+k.Want.RatString())
	case *kind.AnyOf, *kind.OneOf, *kind.Not:
		add(field, show(value)+" has none of the allowed forms", "what the tool's input schema says")
	default:
		if len(failure.Causes) == 0 {
			keyword := strings.Join(failure.ErrorKind.KeywordPath(), "/")
			add(field, show(value)+" is not allowed by "+keyword+" of the schema", "what the tool's input schema says")
		}
		for _, cause := range failure.Causes {
			found = givenProblems(found, o, v, cause)
		}
	}
	return found
}

// follow returns the name of the place a location stands for, and its value.
func follow(v any, location []string) (field string, at any) {
	at = v
	for _, token := range location {
		switch value := at.(type) {
		case map[string]any:
			field, at = joinField(field, token), value[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i >= len(value) {
				return field, at
			}
			field, at = field+"["+token+"]", value[i]
		}
	}
	return field, at
}

func literals(values []any) string {
	const most = 20
	var shown []string
	for i, v := range values {
		if i == most {
			shown = append(shown, "…")
			break
		}
		shown = append(shown, show(v))
	}
	return strings.Join(shown, ", ")
}
