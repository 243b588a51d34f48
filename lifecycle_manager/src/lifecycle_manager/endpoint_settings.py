"""The options of the servers for Watchers, replicas and admission, and of the fleet page."""

from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated

from lifecycle_manager.contract.options import (
    Before,
    BindAddress,
    Count,
    EventNames,
    LoopbackAddress,
    Namespace,
    Texts,
    option,
    replica_bind_address_option,
    split_texts,
    sync_namespace_option,
    webhook_service_option,
)
from lifecycle_manager.rollout.settings import RolloutSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """Where this replica listens, and whom it trusts. `event_hosts` are the names by which Watchers connect.

    `trusted_proxies` may terminate TLS in front of the event endpoint.
    """

    events: BindAddress = option(("", 8082), "kyma-skr-listener-bind-address", "listen address for events of Watchers")
    event_names: EventNames = field(default_factory=EventNames)
    max_event_connections: Count = option(
        15_000, "max-event-connections", "maximum of open event connections; an idle Watcher keeps one"
    )
    accept_unsigned_events: bool = option(
        False,
        "accept-unsigned-events",
        "accept unsigned events, as the Watcher of upstream Kyma sends them, by their TLS certificate",
    )
    trusted_proxies: Annotated[tuple[IPv4Network | IPv6Network, ...], Before(split_texts)] = option(
        (),
        "trusted-proxy-cidrs",
        "addresses of TLS-terminating proxies whose X-Forwarded-Client-Cert header is trusted",
    )
    replicas: BindAddress = replica_bind_address_option()
    enable_webhooks: bool = option(False, "enable-webhooks", "validate resources at admission; needs a Service")
    admission: BindAddress = option(("", 9443), "webhook-bind-address", "listen address for admission requests")
    webhook_service: str = webhook_service_option()
    webhook_client_ca: Path | None = option(
        None,
        "webhook-client-ca",
        "PEM file with the CA of the client certificate that the API server has for webhooks; others are refused. "
        "Default: no certificate is asked for",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """The identity provider of the control plane's API server, at which users of the page may sign in."""

    issuer: str = option(
        "",
        "ui-oidc-issuer-url",
        "identity provider at which users of the fleet page may sign in: that of the API server of the control plane "
        "(--oidc-issuer-url there). Default: they sign in with a token only",
    )
    client_id: str = option("", "ui-oidc-client-id", "client of the fleet page at the provider")
    client_secret_file: str = option("", "ui-oidc-client-secret-file", "file with the secret of that client, if any")
    redirect_url: str = option(
        "",
        "ui-oidc-redirect-url",
        "address of the fleet page in a browser, with the path /sign-in/callback, as registered at the provider",
    )
    ca_file: str = option("", "ui-oidc-ca-file", "CA certificates of the provider; default: those of the system")
    scopes: tuple[str, ...] = ("email",)
    """What is asked for beside openid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSettings:
    """Where the page is served, if at all, and when versions change, for the explanation of what is held back."""

    address: LoopbackAddress = option(
        None,
        "ui-bind-address",
        "loopback address of the fleet page, such as 127.0.0.1:8090, for kubectl port-forward or a proxy in the same "
        "Pod; needs the distribution kyma-fleet-page. Default: it is not served",
    )
    hosts: Texts = option(
        (),
        "ui-allowed-hosts",
        "names under which a proxy serves the fleet page; requests with another Host than these and loopback addresses "
        "are refused",
    )
    oidc: OidcSettings = field(default_factory=OidcSettings)
    sync_namespace: Namespace = sync_namespace_option()
    rollout: RolloutSettings = field(default_factory=RolloutSettings)
