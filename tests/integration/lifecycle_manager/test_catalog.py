"""The module catalog of a cluster: the modules that its users may choose, as in the control plane."""

from collections.abc import Awaitable, Callable
from typing import Any

from kube_runtime import Client, NotFound, NotServed, Resource
from kyma_demo.environment import Environment
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.resources import KYMAS, MODULE_RELEASE_METAS, MODULE_TEMPLATES
from lifecycle_manager_api import names
from tests.integration.lifecycle_manager.catalog_entries import (
    in_catalog,
    put_in_catalog,
    release,
    remove_from_catalog,
    template,
)
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


def missing(skr: Client, resource: Resource[Any], name: str) -> Callable[[], Awaitable[bool]]:
    async def gone() -> bool:
        try:
            await skr.get(resource, name, SKR)
        except (NotFound, NotServed):
            return True
        return False

    return gone


async def label_kyma(environment: Environment, label: str, value: str | None) -> None:
    patch = {"metadata": {"labels": {label: value}}}
    await environment.kcp.merge_patch(KYMAS, "demo", patch, KCP, field_manager="test")


async def test_module_appears_with_available_channels_and_disappears_with_its_template(
    environment: Environment,
) -> None:
    fast = template("telemetry", "1.1.0")
    async with in_catalog(
        environment.kcp, template("telemetry", "1.0.0"), release("telemetry", regular="1.0.0", fast="1.1.0")
    ):
        await eventually(shown(environment.skr, MODULE_TEMPLATES, "telemetry-1.0.0"))

        async def channels(*wanted: str) -> bool:
            found = await environment.skr.get(MODULE_RELEASE_METAS, "telemetry", SKR)
            return [each.channel for each in found.spec.channels] == list(wanted)

        await eventually(shown(environment.skr, MODULE_RELEASE_METAS, "telemetry"))
        await eventually(lambda: channels("regular"))
        await put_in_catalog(environment.kcp, fast)
        await eventually(lambda: channels("regular", "fast"))
    await eventually(missing(environment.skr, MODULE_TEMPLATES, "telemetry-1.0.0"))
    await eventually(missing(environment.skr, MODULE_RELEASE_METAS, "telemetry"))
    await remove_from_catalog(environment.kcp, fast)
    await eventually(missing(environment.skr, MODULE_TEMPLATES, "telemetry-1.1.0"))


async def test_beta_module_is_synced_only_to_beta_clusters_and_not_updated_in_others(environment: Environment) -> None:
    beta = template("preview", "1.0.0", labels={names.BETA: "true"})
    open_to_all = template("other", "1.0.0")
    inside = template("inside", "1.0.0", labels={names.INTERNAL: "true"})
    async with in_catalog(environment.kcp, beta, release("preview", regular="1.0.0"), open_to_all, inside):
        await eventually(shown(environment.skr, MODULE_TEMPLATES, "other-1.0.0"))
        assert await missing(environment.skr, MODULE_TEMPLATES, "preview-1.0.0")()
        await label_kyma(environment, names.BETA, "true")
        await eventually(shown(environment.skr, MODULE_TEMPLATES, "preview-1.0.0", requires_downtime=False))

        # One patch, so that the module that appears proves that both labels were processed.
        labels = {"metadata": {"labels": {names.BETA: None, names.INTERNAL: "true"}}}
        await environment.kcp.merge_patch(KYMAS, "demo", labels, KCP, field_manager="test")
        await eventually(shown(environment.skr, MODULE_TEMPLATES, "inside-1.0.0"))
        beta["spec"]["requiresDowntime"] = True
        await put_in_catalog(environment.kcp, beta)
        open_to_all["spec"]["requiresDowntime"] = True
        await put_in_catalog(environment.kcp, open_to_all)
        await eventually(shown(environment.skr, MODULE_TEMPLATES, "other-1.0.0", requires_downtime=True))
        assert await shown(environment.skr, MODULE_TEMPLATES, "preview-1.0.0", requires_downtime=False)()
    await eventually(missing(environment.skr, MODULE_TEMPLATES, "preview-1.0.0"))
    await label_kyma(environment, names.INTERNAL, None)


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


async def test_template_created_by_a_user_is_not_changed(environment: Environment) -> None:
    own = template("own", "1.0.0")
    own["metadata"]["namespace"] = SKR
    await environment.skr.apply(MODULE_TEMPLATES, "own-1.0.0", own, SKR, field_manager="kubectl")
    async with in_catalog(environment.kcp, template("another", "1.0.0")):
        await eventually(shown(environment.skr, MODULE_TEMPLATES, "another-1.0.0"))
    await eventually(missing(environment.skr, MODULE_TEMPLATES, "another-1.0.0"))
    assert await shown(environment.skr, MODULE_TEMPLATES, "own-1.0.0")()
    await environment.skr.delete(MODULE_TEMPLATES, "own-1.0.0", SKR)
