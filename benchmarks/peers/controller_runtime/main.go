// A peer of kube_runtime in the benchmarks: the same work, done with controller-runtime.
//
// Roles: "cache" fills a cache of Things and keeps it, "reconcile" is a controller that gives each Thing a ConfigMap
// and a status, "queue" passes keys through the work queues. What was reached is reported as one JSON line each.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const fieldOwner = client.FieldOwner("controller-runtime-peer")

func main() {
	options := flag.NewFlagSet("controller-runtime-peer", flag.ExitOnError) // its own: the library has flags, too
	role := options.String("role", "cache", "cache, reconcile or queue")
	kubeconfig := options.String("kubeconfig", "", "the kubeconfig of the cluster")
	namespace := options.String("namespace", "", "the namespace of the Things")
	count := options.Int("count", 100_000, "how many keys pass through the queues")
	_ = options.Parse(os.Args[1:])
	ctrl.SetLogger(logr.Discard())

	ctx := ctrl.SetupSignalHandler()
	var err error
	switch *role {
	case "cache":
		err = fillCache(ctx, *kubeconfig, *namespace)
	case "reconcile":
		err = runController(ctx, *kubeconfig, *namespace)
	case "queue":
		passKeys(*count)
	default:
		err = fmt.Errorf("there is no role %q", *role)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func fillCache(ctx context.Context, kubeconfig, namespace string) error {
	scheme, err := things()
	if err != nil {
		return err
	}
	began := time.Now()
	config, err := unlimited(kubeconfig)
	if err != nil {
		return err
	}
	filled, err := cache.New(config, cache.Options{Scheme: scheme, DefaultNamespaces: within(namespace)})
	if err != nil {
		return err
	}
	informer, err := filled.GetInformer(ctx, &Thing{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- filled.Start(ctx) }()
	for !informer.HasSynced() { // more often than WaitForCacheSync looks
		select {
		case err := <-ended:
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
	seconds := time.Since(began).Seconds()
	var listed ThingList
	if err := filled.List(ctx, &listed, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	report(map[string]any{"seconds": seconds, "objects": len(listed.Items)})
	return <-ended
}

func runController(ctx context.Context, kubeconfig, namespace string) error {
	scheme, err := things()
	if err != nil {
		return err
	}
	config, err := unlimited(kubeconfig)
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Cache:   cache.Options{DefaultNamespaces: within(namespace)},
		Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&Thing{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 10}).
		Complete(&thingReconciler{manager.GetClient()})
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}

type thingReconciler struct{ client client.Client }

func (r *thingReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var thing Thing
	if err := r.client.Get(ctx, request.NamespacedName, &thing); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	child := applycorev1.ConfigMap(thing.Name, thing.Namespace).
		WithData(map[string]string{"generation": fmt.Sprint(thing.Generation)})
	if err := r.client.Apply(ctx, child, fieldOwner, client.ForceOwnership); err != nil {
		return reconcile.Result{}, err
	}
	before := thing.DeepCopyObject().(*Thing)
	thing.Status.ObservedGeneration = thing.Generation
	return reconcile.Result{}, r.client.Status().Patch(ctx, &thing, client.MergeFrom(before), fieldOwner)
}

// passKeys has each key added three times, at three priorities where the queue knows any, then taken and done.
func passKeys(count int) {
	keys := make([]reconcile.Request, count)
	for number := range keys {
		keys[number].Namespace = "default"
		keys[number].Name = fmt.Sprintf("key-%d", number)
	}
	plain := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	began := cpuSeconds()
	for range 3 {
		for _, key := range keys {
			plain.Add(key)
		}
	}
	for range count {
		key, _ := plain.Get()
		plain.Done(key)
	}
	plainSeconds := cpuSeconds() - began

	byPriority := priorityqueue.New[reconcile.Request]("peer")
	began = cpuSeconds()
	for round := range 3 {
		for number, key := range keys {
			priority := (number + round) % 3
			byPriority.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, key)
		}
	}
	for range count {
		key, _, _ := byPriority.GetWithPriority()
		byPriority.Done(key)
	}
	report(map[string]any{"workqueue": plainSeconds, "priorityqueue": cpuSeconds() - began})
}

// cpuSeconds returns the CPU time of this process, which does not depend on who else wants the core.
func cpuSeconds() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		log.Fatal(err)
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

func unlimited(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err == nil {
		config.QPS = -1
	}
	return config, err
}

func within(namespace string) map[string]cache.Config {
	return map[string]cache.Config{namespace: {}}
}

func things() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	addThings(scheme)
	return scheme, nil
}

func report(line map[string]any) {
	if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
		log.Fatal(err)
	}
}
