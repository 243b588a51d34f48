// The container that holds the namespaces of a Pod; it does nothing until it is stopped.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	stopping := make(chan os.Signal, 1)
	signal.Notify(stopping, syscall.SIGTERM, syscall.SIGINT)
	<-stopping
}
