// A Module Manager in Go: it turns the Module CR of the module "greeting" into a ConfigMap. It does not use the SDK:
// it watches ModuleConfigs and applies SyncResources.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/yaml"
)

const module, group = "greeting", "operator.kyma-project.io"

var version = schema.GroupVersion{Group: group, Version: "v1alpha1"}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "access to the control plane; in a cluster, the Pod's own")
	namespace := flag.String("namespace", "kcp-system", "where the ModuleConfigs are")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	client := dynamic.NewForConfigOrDie(config)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 10*time.Minute, *namespace,
		func(options *meta.ListOptions) { options.LabelSelector = group + "/module-name=" + module })
	configs := factory.ForResource(version.WithResource("moduleconfigs")).Informer()
	enqueue := func(object any) { queue.Add(object.(*unstructured.Unstructured).GetName()) }
	configs.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, new any) { enqueue(new) }})
	factory.Start(ctx.Done())
	go func() { <-ctx.Done(); queue.ShutDown() }()
	for name, done := queue.Get(); !done; name, done = queue.Get() {
		object, found, _ := configs.GetStore().GetByKey(*namespace + "/" + name)
		if found {
			err = sync(ctx, client, object.(*unstructured.Unstructured))
		}
		if found && err != nil {
			log.Printf("%s: %v", name, err)
			queue.AddRateLimited(name)
		} else {
			queue.Forget(name)
		}
		queue.Done(name)
	}
}

// sync applies the SyncResource of a ModuleConfig. That of a deleted one is deleted by its owner reference.
func sync(ctx context.Context, client dynamic.Interface, config *unstructured.Unstructured) error {
	if config.GetDeletionTimestamp() != nil {
		return nil
	}
	spec := config.Object["spec"].(map[string]any)
	var greeting struct{ Spec struct{ Text string } }
	if err := yaml.Unmarshal([]byte(fmt.Sprint(spec["resource"])), &greeting); err != nil {
		return err
	}
	objects, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "greeting", "namespace": "default"},
		"data":     map[string]any{"text": greeting.Spec.Text}})
	if err != nil {
		return err
	}
	owner := meta.NewControllerRef(config, version.WithKind("ModuleConfig"))
	result := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"kyma": spec["kyma"], "module": spec["module"], "resource": string(objects)}}}
	result.SetGroupVersionKind(version.WithKind("SyncResource"))
	result.SetName(config.GetName())
	result.SetLabels(map[string]string{
		group + "/kyma-name": fmt.Sprint(spec["kyma"]), group + "/module-name": fmt.Sprint(spec["module"])})
	result.SetOwnerReferences([]meta.OwnerReference{*owner})
	_, err = client.Resource(version.WithResource("syncresources")).Namespace(config.GetNamespace()).
		Apply(ctx, config.GetName(), result, meta.ApplyOptions{FieldManager: "module-manager-" + module, Force: true})
	return err
}
