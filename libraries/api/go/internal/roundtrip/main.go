// Roundtrip reads objects as JSON, one a line, and writes them again as this module reads them, for a test that compares
// both. An unknown field, a kind that the scheme does not have, and a deep copy that differs or shares memory end it.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"kyma-project.io/lifecycle-manager/api/v1alpha1"
	"kyma-project.io/lifecycle-manager/api/v1beta2"
)

const maxLine = 16 << 20

func main() {
	scheme := runtime.NewScheme()
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(v1beta2.AddToScheme(scheme))
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		written, err := roundTrip(decoder, lines.Bytes())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(written))
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
}

func roundTrip(decoder runtime.Decoder, line []byte) ([]byte, error) {
	object, _, err := decoder.Decode(line, nil, nil)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	copied := object.DeepCopyObject()
	if !reflect.DeepEqual(object, copied) {
		return nil, fmt.Errorf("the deep copy differs: %s", line)
	}
	overwrite(reflect.ValueOf(object))
	after, err := json.Marshal(copied)
	if err == nil && string(before) != string(after) {
		err = fmt.Errorf("the deep copy shares memory with its source: %s", line)
	}
	return after, err
}

// overwrite changes everything that a value refers to.
func overwrite(value reflect.Value) {
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			overwrite(value.Elem())
		}
	case reflect.Struct:
		for i := range value.NumField() {
			if value.Field(i).CanSet() {
				overwrite(value.Field(i))
			}
		}
	case reflect.Slice:
		for i := range value.Len() {
			overwrite(value.Index(i))
		}
	case reflect.Map:
		value.Clear()
	default:
		value.SetZero()
	}
}
