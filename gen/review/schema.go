package review

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// object is a part of a JSON Schema.
type object = map[string]any

// Schema returns the JSON Schema (draft-07) of what [Review.WriteJSON] prints, indented. Later versions of
// the program may add properties; they take none away and change none without another version.
func Schema() []byte {
	schema := record("What an edit of limits.yaml means.", object{
		"version": object{"const": 1},
		"old":     text("The name of the old file."),
		"new":     text("The name of the new file."),
		"limits":  list("The limits that have changed, in the order of the new file: before them the file itself, whose name is empty, and after them those that are gone.", ref("limit")),
	})
	schema["properties"].(object)["remark"] = text("What is special about the files, such as that one was moved; left out if nothing is.")
	schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	schema["title"] = "A review of rate limits"
	schema["definitions"] = definitions()
	var out bytes.Buffer
	if err := writeJSON(&out, schema); err != nil {
		panic(fmt.Sprintf("review: the schema is not JSON: %v", err))
	}
	return out.Bytes()
}

func definitions() object {
	return object{
		"limit": record("A limit that has changed.", object{
			"limit":    text("Its name, the new one if it was renamed."),
			"classes":  list("All that it is, by its findings.", ref("class")),
			"old":      orNull("Where its name stands in the old file.", ref("position")),
			"new":      orNull("Where its name stands in the new file.", ref("position")),
			"per":      list("The parts of its key: the numbers are for one value of them. Without any, all callers share a count.", object{"type": "string"}),
			"findings": list("The changes, by their ids.", ref("finding")),
			"numbers":  list("What its rule comes to for one key.", ref("number")),
			"notes": list("What comes of the changes.", record("A sentence.", object{
				"about": object{"enum": []string{Deploy, Calls, Rule}}, "text": text("The sentence."),
			})),
			"sql": list("Statements that help with the rows.", record("A statement.", object{
				"why": text("When to run it, and what for."), "text": text("The statement."),
			})),
		}),
		"finding": record("The changes of one id.", object{
			"id":      object{"enum": changeIDs()},
			"classes": list("What they are, at least one.", ref("class")),
			"changes": list("One for each field.", record("A change.", object{
				"field": text("The field; empty for a limit that was added, removed or renamed."),
				"old":   orNull("What held before.", ref("side")),
				"new":   orNull("What holds now.", ref("side")),
			})),
		}),
		"side": record("One side of a change.", object{
			"value":    text("The value that holds, as limits.yaml has it; empty if none does."),
			"given":    object{"type": "boolean", "description": "Whether the file gives it; otherwise it holds by default."},
			"position": ref("position"),
		}),
		"number": record("What a rule comes to.", object{
			"name": text("What it is, such as in any minute."),
			"unit": object{"enum": []string{Tokens, Nanoseconds}},
			"old":  orNull("Before; null if there is none.", ref("amount")),
			"new":  orNull("Now; null if there is none.", ref("amount")),
		}),
		"amount": object{"anyOf": []any{object{"type": "integer"}, object{"const": unbounded}}},
		"position": record("A place in a file; both count from 1, and columns count runes.", object{
			"line": object{"type": "integer", "minimum": 1}, "column": object{"type": "integer", "minimum": 1},
		}),
		"class": object{"enum": Classes()},
	}
}

func changeIDs() (ids []string) {
	for _, kind := range spec.ChangeKinds() {
		ids = append(ids, kind.ID)
	}
	return ids
}

// record is an object that has all of the properties.
func record(description string, properties object) object {
	required := []string{}
	for name := range properties {
		required = append(required, name)
	}
	slices.Sort(required)
	return object{"type": "object", "description": description, "properties": properties, "required": required}
}

func text(description string) object { return object{"type": "string", "description": description} }

func list(description string, of object) object {
	return object{"type": "array", "description": description, "items": of}
}

func orNull(description string, of object) object {
	return object{"anyOf": []any{of, object{"type": "null"}}, "description": description}
}

func ref(definition string) object { return object{"$ref": "#/definitions/" + definition} }
