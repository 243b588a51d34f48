// A provider of OpenID Connect with TLS and two users, from the example of a certified library.
package main

import (
	"flag"
	"log"
	"log/slog"
	"net/http"
	"os"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
)

func main() {
	address := flag.String("address", "", "listen address")
	issuer := flag.String("issuer", "", "URL of the provider")
	redirect := flag.String("redirect", "", "where the client's users come back")
	secret := flag.String("secret", "", "secret of the client")
	certificate := flag.String("certificate", "", "file")
	key := flag.String("key", "", "file")
	flag.Parse()

	storage.RegisterClients(storage.WebClient("fleet-page", *secret, *redirect))
	users := storage.NewStorage(storage.NewUserStore(*issuer))
	router := exampleop.SetupServer(*issuer, users, slog.New(slog.NewTextHandler(os.Stderr, nil)), false)
	log.Fatal(http.ListenAndServeTLS(*address, *certificate, *key, router))
}
