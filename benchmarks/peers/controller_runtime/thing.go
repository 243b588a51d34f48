package main

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Thing is the kind that all the programs watch; benchmarks/peers/things.py has its definition.
type Thing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ThingSpec   `json:"spec,omitempty"`
	Status            ThingStatus `json:"status,omitempty"`
}

// ThingSpec is about 4 kB of rules.
type ThingSpec struct {
	Rules []Rule `json:"rules,omitempty"`
}

// Rule is one of them.
type Rule struct {
	Name    string   `json:"name"`
	Hosts   []string `json:"hosts,omitempty"`
	Weight  int64    `json:"weight"`
	Comment string   `json:"comment,omitempty"`
}

// ThingStatus says which generation the controller has seen.
type ThingStatus struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// ThingList is the list of them.
type ThingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Thing `json:"items"`
}

// DeepCopyObject makes Thing a runtime.Object.
func (t *Thing) DeepCopyObject() runtime.Object {
	copied := *t
	t.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	copied.Spec.Rules = slices.Clone(t.Spec.Rules)
	for number, rule := range t.Spec.Rules {
		copied.Spec.Rules[number].Hosts = slices.Clone(rule.Hosts)
	}
	return &copied
}

// DeepCopyObject makes ThingList a runtime.Object.
func (l *ThingList) DeepCopyObject() runtime.Object {
	copied := *l
	copied.Items = make([]Thing, len(l.Items))
	for number := range l.Items {
		copied.Items[number] = *l.Items[number].DeepCopyObject().(*Thing)
	}
	return &copied
}

func addThings(scheme *runtime.Scheme) {
	version := schema.GroupVersion{Group: "peers.example.com", Version: "v1"}
	scheme.AddKnownTypes(version, &Thing{}, &ThingList{})
	metav1.AddToGroupVersion(scheme, version)
}
