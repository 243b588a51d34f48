"""The servers for Watchers, replicas and admission, and the fleet page."""

from ipaddress import IPv4Network, IPv6Network
from typing import Annotated

from pydantic import Field

from lifecycle_manager.options.kymas import RolloutSettings
from lifecycle_manager.options.model import DomainSettings
from lifecycle_manager.options.shared import EventNames, ReplicaBindAddress, SyncNamespace, WebhookService
from lifecycle_manager.options.types import BindAddress, Count, LoopbackAddress, OptionalPath, Separated, Texts
from lifecycle_manager_api import names


class EndpointSettings(DomainSettings):
    """Where this replica listens, and whom it trusts. `event_hosts` are the names by which Watchers connect.

    `trusted_proxies` may terminate TLS in front of the event endpoint.
    """

    events: BindAddress = Field(
        default=("", 8082),
        validation_alias="kyma-skr-listener-bind-address",
        description="listen address for events of Watchers",
    )
    event_names: EventNames = EventNames()
    max_event_connections: Count = Field(
        default=15_000,
        validation_alias="max-event-connections",
        description="maximum of open event connections; an idle Watcher keeps one",
    )
    accept_unsigned_events: bool = Field(
        default=False,
        validation_alias="accept-unsigned-events",
        description="accept unsigned events, as the Watcher of upstream Kyma sends them, by their TLS certificate",
    )
    trusted_proxies: Annotated[tuple[IPv4Network | IPv6Network, ...], Separated] = Field(
        default=(),
        validation_alias="trusted-proxy-cidrs",
        description="addresses of TLS-terminating proxies whose X-Forwarded-Client-Cert header is trusted",
    )
    replicas: ReplicaBindAddress = ("", 8443)
    enable_webhooks: bool = Field(
        default=False,
        validation_alias="enable-webhooks",
        description="validate resources at admission; needs a Service",
    )
    admission: BindAddress = Field(
        default=("", 9443), validation_alias="webhook-bind-address", description="listen address for admission requests"
    )
    webhook_service: WebhookService = "lifecycle-manager-webhook"
    webhook_client_ca: OptionalPath = Field(
        default=None,
        validation_alias="webhook-client-ca",
        description="PEM file with the CA of the client certificate that the API server has for webhooks; others are "
        "refused. Default: no certificate is asked for",
    )


class OidcSettings(DomainSettings):
    """The identity provider of the control plane's API server, at which users of the page may sign in."""

    issuer: str = Field(
        default="",
        validation_alias="ui-oidc-issuer-url",
        description="identity provider at which users of the fleet page may sign in: that of the API server of the "
        "control plane (--oidc-issuer-url there). Default: they sign in with a token only",
    )
    client_id: str = Field(
        default="", validation_alias="ui-oidc-client-id", description="client of the fleet page at the provider"
    )
    client_secret_file: str = Field(
        default="",
        validation_alias="ui-oidc-client-secret-file",
        description="file with the secret of that client, if any",
    )
    redirect_url: str = Field(
        default="",
        validation_alias="ui-oidc-redirect-url",
        description="address of the fleet page in a browser, with the path /sign-in/callback, as registered at the "
        "provider",
    )
    ca_file: str = Field(
        default="",
        validation_alias="ui-oidc-ca-file",
        description="CA certificates of the provider; default: those of the system",
    )
    scopes: tuple[str, ...] = ("email",)
    """What is asked for beside openid."""


class PageSettings(DomainSettings):
    """Where the page is served, if at all, and when versions change, for the explanation of what is held back."""

    address: LoopbackAddress = Field(
        default=None,
        validation_alias="ui-bind-address",
        description="loopback address of the fleet page, such as 127.0.0.1:8090, for kubectl port-forward or a proxy "
        "in the same Pod; needs the distribution kyma-fleet-page. Default: it is not served",
    )
    hosts: Texts = Field(
        default=(),
        validation_alias="ui-allowed-hosts",
        description="names under which a proxy serves the fleet page; requests with another Host than these and "
        "loopback addresses are refused",
    )
    oidc: OidcSettings = OidcSettings()
    sync_namespace: SyncNamespace = names.SKR_NAMESPACE
    rollout: RolloutSettings = RolloutSettings()
