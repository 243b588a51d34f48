// Enforces the network policies of the Pods of one node: the controller of kube-router, without its router and proxy.
package main

import (
	"flag"
	"log"
	"sync"
	"time"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	settings := options.NewKubeRouterConfig()
	settings.EnableIPv4 = true
	kubeconfig := flag.String("kubeconfig", "", "access to the API server")
	flag.StringVar(&settings.HostnameOverride, "node", "", "name of the node")
	flag.StringVar(&settings.ClusterIPCIDRs[0], "service-cluster-ip-range", "", "addresses of Services")
	flag.Parse()
	access, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	check(err)
	client, err := kubernetes.NewForConfig(access)
	check(err)

	factory := informers.NewSharedInformerFactory(client, 0)
	pods, namespaces := factory.Core().V1().Pods().Informer(), factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	iptables, ipsets, err := netpol.NewIPTablesHandlers(settings)
	check(err)
	var mutex sync.Mutex
	create := func() (*netpol.NetworkPolicyController, error) {
		return netpol.NewNetworkPolicyController(client, settings, pods, policies, namespaces, &mutex, iptables, ipsets)
	}
	controller, err := create()
	for err != nil { // the kubelet has not registered the node yet
		log.Print(err)
		time.Sleep(200 * time.Millisecond)
		controller, err = create()
	}
	handlers := map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		pods:       controller.PodEventHandler,
		namespaces: controller.NamespaceEventHandler,
		policies:   controller.NetworkPolicyEventHandler,
	}
	for informer, handler := range handlers {
		_, err = informer.AddEventHandler(handler)
		check(err)
	}
	forever := make(chan struct{})
	factory.Start(forever)
	factory.WaitForCacheSync(forever)

	heartbeats := make(chan *healthcheck.ControllerHeartbeat)
	go func() {
		for range heartbeats {
		}
	}()
	var running sync.WaitGroup
	running.Add(1)
	go controller.Run(heartbeats, forever, &running)
	running.Wait()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
