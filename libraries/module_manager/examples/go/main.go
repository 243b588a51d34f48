// A Module Manager in Go: it turns the Module CR of the module "greeting" into a ConfigMap. It does not use the SDK,
// but the types in libraries/api/go and controller-runtime: it watches ModuleConfigs and applies SyncResources.
package main

import (
	"context"
	"flag"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"kyma-project.io/lifecycle-manager/api/names"
	"kyma-project.io/lifecycle-manager/api/v1alpha1"
)

const (
	module       = "greeting"
	fieldManager = client.FieldOwner("module-manager-" + module)
)

var configKind = v1alpha1.GroupVersion.WithKind("ModuleConfig")

func main() {
	namespace := flag.String("namespace", names.KcpNamespace, "where the ModuleConfigs are")
	flag.Parse() // with --kubeconfig of controller-runtime
	ctrl.SetLogger(zap.New())
	scheme := runtime.NewScheme()
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
		Cache: cache.Options{
			DefaultNamespaces:    map[string]cache.Config{*namespace: {}},
			DefaultLabelSelector: labels.SelectorFromSet(labels.Set{names.ModuleName: module}),
		},
	})
	utilruntime.Must(err)
	reconciler := &Reconciler{Client: manager.GetClient()}
	utilruntime.Must(ctrl.NewControllerManagedBy(manager).
		For(&v1alpha1.ModuleConfig{}).
		Owns(&v1alpha1.SyncResource{}).
		Complete(reconciler))
	utilruntime.Must(manager.Start(ctrl.SetupSignalHandler()))
}

// Reconciler applies the SyncResource of a ModuleConfig, and reports in its status whether it could.
type Reconciler struct {
	client.Client
}

// Reconcile changes nothing for a ModuleConfig that is being deleted: its SyncResource goes with its owner.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var config v1alpha1.ModuleConfig
	if err := r.Get(ctx, request.NamespacedName, &config); err != nil || config.DeletionTimestamp != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	text, err := render(config.Spec.Resource)
	if err != nil { // a Module CR that can't be read changes no objects
		rendered := condition(names.RenderedCondition, metav1.ConditionFalse, "InvalidModuleCR", err.Error())
		ready := condition(names.ReadyCondition, metav1.ConditionFalse, "InvalidModuleCR", err.Error())
		return ctrl.Result{}, r.report(ctx, &config, v1alpha1.StateError, rendered, ready)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(syncResource(&config, text))
	if err != nil {
		return ctrl.Result{}, err
	}
	configuration := client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: content})
	if err := r.Apply(ctx, configuration, fieldManager, client.ForceOwnership); err != nil {
		return ctrl.Result{}, err
	}
	var applied v1alpha1.SyncResource
	if err := r.Get(ctx, request.NamespacedName, &applied); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // its own event follows
	}
	rendered := condition(names.RenderedCondition, metav1.ConditionTrue, "Rendered", "1 object")
	state, ready := readiness(&applied)
	return ctrl.Result{}, r.report(ctx, &config, state, rendered, ready)
}

// readiness returns state and condition of a SyncResource, as far as its status is about what was applied last.
func readiness(applied *v1alpha1.SyncResource) (v1alpha1.State, metav1.Condition) {
	generation := applied.Status.ObservedGeneration
	ready := meta.FindStatusCondition(applied.Status.Conditions, names.ReadyCondition)
	if ready == nil || generation == nil || *generation != applied.Generation {
		return v1alpha1.StateProcessing,
			condition(names.ReadyCondition, metav1.ConditionFalse, "NotApplied", "the SyncResource is not applied yet")
	}
	return applied.Status.State, condition(ready.Type, ready.Status, ready.Reason, ready.Message)
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// render returns the objects of a Module CR as YAML.
func render(moduleCR string) (string, error) {
	var greeting struct {
		Spec struct {
			Text string `json:"text"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(moduleCR), &greeting); err != nil {
		return "", err
	}
	text, err := yaml.Marshal(&corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "greeting", Namespace: "default"},
		Data:       map[string]string{"text": greeting.Spec.Text},
	})
	return string(text), err
}

// syncResource returns the SyncResource of a ModuleConfig, which continues its trace.
func syncResource(config *v1alpha1.ModuleConfig, text string) *v1alpha1.SyncResource {
	annotations := map[string]string{names.ModuleConfigGeneration: strconv.FormatInt(config.Generation, 10)}
	for _, name := range []string{names.Traceparent, names.ObservedAt} {
		if value, found := config.Annotations[name]; found {
			annotations[name] = value
		}
	}
	return &v1alpha1.SyncResource{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "SyncResource"},
		ObjectMeta: metav1.ObjectMeta{
			Name:            config.Name,
			Namespace:       config.Namespace,
			Labels:          map[string]string{names.KymaName: config.Spec.Kyma, names.ModuleName: config.Spec.Module},
			Annotations:     annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(config, configKind)},
		},
		Spec: v1alpha1.SyncResourceSpec{Kyma: config.Spec.Kyma, Module: config.Spec.Module, Resource: text},
	}
}

// report applies the state and conditions to the status of a ModuleConfig; without a difference nothing is written.
func (r *Reconciler) report(ctx context.Context, config *v1alpha1.ModuleConfig, state v1alpha1.State,
	own ...metav1.Condition) error {
	var conditions []metav1.Condition
	for _, each := range own {
		if before := meta.FindStatusCondition(config.Status.Conditions, each.Type); before != nil {
			conditions = append(conditions, *before) // its time changes only with its status
		}
		each.ObservedGeneration = config.Generation
		meta.SetStatusCondition(&conditions, each)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.ModuleConfigStatus{
		State: state, Conditions: conditions, ObservedGeneration: &config.Generation})
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: map[string]any{"status": content}}
	object.SetGroupVersionKind(configKind)
	object.SetName(config.Name)
	object.SetNamespace(config.Namespace)
	configuration := client.ApplyConfigurationFromUnstructured(object)
	return client.IgnoreNotFound(r.Status().Apply(ctx, configuration, fieldManager, client.ForceOwnership))
}
