// policyd enforces NetworkPolicies on a kind node, which kindnetd does not, for as long as it runs: it is kube-router's
// controller of policies without the router and the proxy. It reads NODE_NAME and the service account of its pod.
// When it is asked to stop, it removes its rules from the node.
package main

import (
	"context"
	"fmt"
	"log"
	"os/signal"
	"sync"
	"syscall"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func main() {
	if err := enforce(); err != nil {
		log.Fatal(err)
	}
}

func enforce() error {
	account, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(account)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	config := options.NewKubeRouterConfig()
	config.EnableIPv4 = true // these clusters have no IPv6
	tables, sets, err := netpol.NewIPTablesHandlers(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	namespaces := factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	newController := func() (*netpol.NetworkPolicyController, error) {
		return netpol.NewNetworkPolicyController(client, config, pods, policies, namespaces, &sync.Mutex{}, tables, sets)
	}
	controller, err := newController()
	if err != nil {
		return err
	}
	// One that has written rules remembers them, and its Cleanup would write those of others twice.
	cleaner, err := newController()
	if err != nil {
		return err
	}

	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		pods:       controller.PodEventHandler,
		namespaces: controller.NamespaceEventHandler,
		policies:   controller.NetworkPolicyEventHandler,
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("asked to stop before there was a list of %s", kind)
		}
	}

	beats := make(chan *healthcheck.ControllerHeartbeat)
	go func() {
		for range beats { // the controller blocks until each is received
		}
	}()
	var running sync.WaitGroup
	running.Add(1)
	controller.Run(beats, ctx.Done(), &running)
	running.Wait()
	cleaner.Cleanup()
	return nil
}
