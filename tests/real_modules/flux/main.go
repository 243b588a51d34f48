// Applies and deletes objects with Flux's package ssa, as its kustomize-controller does: one request a line.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/utils"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// request names what to do with the objects in a text: "apply", or "prune" to delete them.
type request struct {
	Action string `json:"action"`
	Text   string `json:"text"`
	Force  bool   `json:"force"`
}

type answer struct {
	Error string `json:"error"`
}

func main() {
	manager, err := newManager(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	output := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked request
		var done answer
		if err := json.Unmarshal(line, &asked); err != nil {
			done.Error = err.Error()
		} else if err := serve(manager, asked); err != nil {
			done.Error = err.Error()
		}
		if output.Encode(done) != nil {
			return
		}
	}
}

func newManager(kubeconfig, fieldManager string) (*ssa.ResourceManager, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = -1, -1
	reached, err := client.New(config, client.Options{Scheme: runtime.NewScheme()})
	if err != nil {
		return nil, err
	}
	return ssa.NewResourceManager(reached, nil, ssa.Owner{Field: fieldManager, Group: "flux.example.com"}), nil
}

func serve(manager *ssa.ResourceManager, asked request) error {
	ctx := context.Background()
	objects, err := utils.ReadObjects(strings.NewReader(asked.Text))
	if err != nil {
		return err
	}
	if asked.Action == "prune" {
		_, err = manager.DeleteAll(ctx, objects, ssa.DefaultDeleteOptions())
		return err
	}
	return apply(ctx, manager, objects, asked.Force)
}

func apply(ctx context.Context, manager *ssa.ResourceManager, objects []*unstructured.Unstructured, force bool) error {
	options := ssa.DefaultApplyOptions()
	options.Force = force
	_, err := manager.ApplyAll(ctx, objects, options)
	return err
}
