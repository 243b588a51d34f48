"""The module catalog of a cluster: the modules that its users may choose, as in the control plane."""

from collections.abc import Awaitable, Callable
from typing import Any

from kube_runtime import Client, NotFound, NotServed, Resource
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.resources import MODULE_RELEASE_METAS, MODULE_TEMPLATES
from lifecycle_manager_api import names
from tests.waiting import eventually

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE


def shown(skr: Client, resource: Resource[Any], name: str, **spec: Any) -> Callable[[], Awaitable[bool]]:
    """Return a check that an object is in the catalog with these fields in its spec."""

    async def there() -> bool:
        try:
            item = await skr.get(resource, name, SKR)
        except (NotFound, NotServed):
            return False
        return all(getattr(item.spec, key) == value for key, value in spec.items())

    return there


async def test_edit_of_the_catalog_is_reverted_at_once(walkthrough: Walkthrough) -> None:
    """Before the interval, because the Watcher reports it."""
    environment = walkthrough.environment
    await walkthrough.change_volume("710Gi")
    await eventually(shown(environment.skr, MODULE_TEMPLATES, "cloud-resources-0.1.0", channel=""))
    patch = {"spec": {"channel": "mine", "requiresDowntime": True}}
    await environment.skr.merge_patch(
        MODULE_TEMPLATES, "cloud-resources-0.1.0", patch, SKR, field_manager="kubectl-edit"
    )
    await eventually(
        shown(environment.skr, MODULE_TEMPLATES, "cloud-resources-0.1.0", channel="", requires_downtime=False)
    )
    await environment.skr.delete(MODULE_RELEASE_METAS, "cloud-resources", SKR)
    await eventually(shown(environment.skr, MODULE_RELEASE_METAS, "cloud-resources"))


async def test_edit_that_excludes_what_the_catalog_says_is_reverted(walkthrough: Walkthrough) -> None:
    """A release has either channels or a mandatory version: the API server refuses both together."""
    environment = walkthrough.environment
    await walkthrough.change_volume("715Gi")
    before = await environment.skr.get(MODULE_RELEASE_METAS, "cloud-resources", SKR)
    patch = {"spec": {"channels": None, "mandatory": {"version": "9.9.9"}}}
    edited = await environment.skr.merge_patch(
        MODULE_RELEASE_METAS, "cloud-resources", patch, SKR, field_manager="kubectl-edit"
    )
    assert edited.spec.mandatory
    await eventually(
        shown(environment.skr, MODULE_RELEASE_METAS, "cloud-resources", channels=before.spec.channels, mandatory=None)
    )
