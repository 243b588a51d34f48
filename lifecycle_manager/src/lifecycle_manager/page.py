"""The option for the fleet page, which is a distribution of its own: found by its entry point, imported when served."""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import entry_points

from kube_runtime import Client, Manager
from lifecycle_manager.contract.options import LoopbackAddress, Texts, option
from lifecycle_manager.module_catalog import Offers
from lifecycle_manager.rollout import RolloutSettings

ENTRY_POINTS = "lifecycle_manager.pages"


class PageMissing(Exception):
    """The page is to be served, and no installed distribution has one."""


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
    rollout: RolloutSettings = field(default_factory=RolloutSettings)


def setup(manager: Manager, kcp: Client, offers: Offers, settings: PageSettings) -> None:
    """Serve the page while the manager runs, if it has an address. Raises PageMissing."""
    if settings.address is None:
        return
    found = tuple(entry_points(group=ENTRY_POINTS))
    if not found:
        raise PageMissing("--ui-bind-address: install the distribution kyma-fleet-page to serve the fleet page")
    serve: Callable[[Manager, Client, Offers, PageSettings], None] = found[0].load()
    serve(manager, kcp, offers, settings)
