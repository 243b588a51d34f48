"""The option for the fleet page, which is a distribution of its own: found by its entry point, imported when served."""

from collections.abc import Callable
from importlib.metadata import entry_points

from kube_runtime import Client, Manager
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.options.endpoints import PageSettings

ENTRY_POINTS = "lifecycle_manager.pages"


class PageUnusable(Exception):
    """The page is to be served, and cannot be."""


def setup(manager: Manager, kcp: Client, offers: Offers, settings: PageSettings) -> None:
    """Serve the page while the manager runs, if it has an address. Raises PageUnusable."""
    if settings.address is None:
        return
    found = tuple(entry_points(group=ENTRY_POINTS))
    if not found:
        raise PageUnusable("--ui-bind-address: install the distribution kyma-fleet-page to serve the fleet page")
    serve: Callable[[Manager, Client, Offers, PageSettings], None] = found[0].load()
    serve(manager, kcp, offers, settings)
