"""The option for the fleet page, which is a distribution of its own: found by its entry point, imported when served."""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import entry_points

from kube_runtime import Client, Manager
from lifecycle_manager.contract.options import LoopbackAddress, Namespace, Texts, option, sync_namespace_option
from lifecycle_manager.module_catalog import Offers
from lifecycle_manager.rollout import RolloutSettings

ENTRY_POINTS = "lifecycle_manager.pages"


class PageUnusable(Exception):
    """The page is to be served, and cannot be."""


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
    scopes: Texts = option(("email",), "ui-oidc-scopes", "scopes to ask for beside openid")


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


def setup(manager: Manager, kcp: Client, offers: Offers, settings: PageSettings) -> None:
    """Serve the page while the manager runs, if it has an address. Raises PageUnusable."""
    if settings.address is None:
        return
    found = tuple(entry_points(group=ENTRY_POINTS))
    if not found:
        raise PageUnusable("--ui-bind-address: install the distribution kyma-fleet-page to serve the fleet page")
    serve: Callable[[Manager, Client, Offers, PageSettings], None] = found[0].load()
    serve(manager, kcp, offers, settings)
