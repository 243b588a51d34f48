"""The option for the fleet page, which is a distribution of its own: found by its entry point, imported when served."""

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

from kube_runtime import Client, Manager, Resource
from kube_runtime.informer import Outline
from lifecycle_manager.contract.outlines import OUTLINES
from lifecycle_manager.endpoint_settings import PageSettings
from lifecycle_manager.module_catalog import Offers

ENTRY_POINTS = "lifecycle_manager.pages"


class PageUnusable(Exception):
    """The page is to be served, and cannot be."""


def outlines(settings: PageSettings) -> Mapping[Resource[Any], Outline[Any]]:
    """Return what a replica keeps of clusters that others have: the page shows every cluster, from the caches."""
    return OUTLINES if settings.address is None else {}


def setup(manager: Manager, kcp: Client, offers: Offers, settings: PageSettings) -> None:
    """Serve the page while the manager runs, if it has an address. Raises PageUnusable."""
    if settings.address is None:
        return
    found = tuple(entry_points(group=ENTRY_POINTS))
    if not found:
        raise PageUnusable("--ui-bind-address: install the distribution kyma-fleet-page to serve the fleet page")
    serve: Callable[[Manager, Client, Offers, PageSettings], None] = found[0].load()
    serve(manager, kcp, offers, settings)
