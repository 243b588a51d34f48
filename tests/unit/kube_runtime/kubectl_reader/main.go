// Reads texts as kubectl does, to compare the values: for each JSON string on its input it writes their documents.
package main

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"
)

type read struct {
	Documents []any  `json:"documents"`
	Error     string `json:"error,omitempty"`
}

func main() {
	input, output := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var text string
		if err := input.Decode(&text); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		if err := output.Encode(documentsOf(text)); err != nil {
			log.Fatal(err)
		}
	}
}

func documentsOf(text string) read {
	found := read{Documents: []any{}}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var document any
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			found.Error = err.Error()
			return found
		}
		found.Documents = append(found.Documents, document)
	}
}
