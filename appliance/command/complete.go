package command

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Complete returns the values, sorted, that a parameter of c may have and that
// begin with begin: those of its type, or those that the command named by
// ze:complete answers the caller. call says who asks; chosen are other arguments
// of c, as texts: what that command takes of them narrows its answer. Where
// nobody can say there is nothing to choose from; the error is of this daemon.
func (d *Dispatcher) Complete(ctx context.Context, call Call, c *Command, param, begin string, chosen map[string]string) ([]string, error) {
	n := c.Input.Param(param)
	if n == nil {
		return nil, nil
	}
	values := n.Choices()
	if n.Complete != nil {
		source := d.Registry().Find(call.Principal, n.Complete.Path)
		if source == nil || source.Effect != EffectRead {
			return nil, nil
		}
		given := map[string]string{}
		for name, text := range chosen {
			if name != param && source.Input.Param(name) != nil {
				given[name] = text
			}
		}
		var err error
		if call.Values, err = source.Values(given); err != nil {
			return nil, nil // what is chosen so far is not right yet
		}
		call.Path = source.Path
		result, err := d.Do(ctx, call)
		switch {
		case err != nil && AsError(err).Code == Internal:
			return nil, err
		case err != nil:
			return nil, nil
		}
		var answer any
		if err := json.Unmarshal(result.JSON, &answer); err != nil {
			return nil, AsError(err)
		}
		values = fieldTexts(values, answer, n.Complete.Field)
	}
	values = slices.DeleteFunc(values, func(v string) bool { return !strings.HasPrefix(v, begin) })
	slices.Sort(values)
	return slices.Compact(values), nil
}

// fieldTexts adds the texts that stand at a path of names in a JSON value.
func fieldTexts(to []string, v any, path []string) []string {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			to = fieldTexts(to, item, path)
		}
	case map[string]any:
		if len(path) > 0 {
			to = fieldTexts(to, v[path[0]], path[1:])
		}
	case string:
		if len(path) == 0 {
			to = append(to, v)
		}
	}
	return to
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
