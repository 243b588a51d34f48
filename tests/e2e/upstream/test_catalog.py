"""Who is offered a module, and who may have it."""

from typing import Any

from lifecycle_manager.contract.resources import MODULE_RELEASE_METAS, MODULE_TEMPLATES
from lifecycle_manager_api import State, names
from tests.e2e.upstream.modules import NEW, OLD, Module
from tests.e2e.upstream.product import KCP, SKR, Product
from tests.waiting import eventually

ALLOWED = f"{names.GROUP}/restricted-module"


async def offers(world: Product, module: Module, *kept: str, **versions: str) -> None:
    """Wait until the user cluster has the release with these channels, and the templates of these versions alone.

    Templates of the `kept` versions are there, too, although no channel names them.
    """

    async def is_so() -> bool:
        templates = (await world.skr.list(MODULE_TEMPLATES, SKR)).items
        found = {each.spec.version for each in templates if each.spec.module_name == module.name}
        releases = (await world.skr.list(MODULE_RELEASE_METAS, SKR)).items
        channels = [each.spec.channels for each in releases if each.spec.module_name == module.name]
        named = {each.channel: each.version for every in channels for each in every}
        return found == {*kept, *versions.values()} and named == versions and len(channels) == bool(versions)

    await eventually(is_so, what=f"{module.name} is offered as {versions}")


async def label_template(world: Product, module: Module, version: str, **labels: str | None) -> None:
    patch = {"metadata": {"labels": {f"{names.GROUP}/{key}": value for key, value in labels.items()}}}
    await world.kcp.merge_patch(MODULE_TEMPLATES, f"{module.name}-{version}", patch, KCP, field_manager="team")


def selecting(value: str) -> dict[str, Any]:
    return {"kymaSelector": {"matchLabels": {ALLOWED: value}}}


async def test_modulereleasemeta_sync(world: Product) -> None:
    groups = {f"{names.GROUP}/{group}": "true" for group in ("beta", "internal")}
    async with world.offered(Module(name="synced"), labels=groups) as module:
        await offers(world, module)
        async with world.labelled(f"{names.GROUP}/beta", "true"):
            await offers(world, module)
            async with world.labelled(f"{names.GROUP}/internal", "true"):
                await offers(world, module, regular=OLD, fast=NEW)
        # A user may have it by now: it stays, as long as it is not deleted in KCP.
        await offers(world, module, regular=OLD, fast=NEW)
        await label_template(world, module, OLD, beta=None, internal=None)
        await offers(world, module, NEW, regular=OLD)
        await world.release(module, regular=NEW)
        await world.kcp.delete(MODULE_TEMPLATES, f"{module.name}-{OLD}", KCP)
        await label_template(world, module, NEW, beta=None, internal=None)
        await offers(world, module, regular=NEW)
        await world.kcp.delete(MODULE_RELEASE_METAS, module.name, KCP)

        async def is_withdrawn() -> bool:
            return f"ModuleReleaseMeta {module.name}" not in await world.catalog()

        await eventually(is_withdrawn)
        await world.kcp.get(MODULE_TEMPLATES, f"{module.name}-{NEW}", KCP)


async def test_restricted_module_catalog_sync(world: Product) -> None:
    module = Module(name="restricted")
    async with world.labelled(ALLOWED, None), world.offered(module, OLD, regular=OLD):
        await offers(world, module)
        await world.release(module, {"kymaSelector": {}}, regular=OLD)
        await offers(world, module)
        await world.label_kyma(**{ALLOWED: "allowed"})
        await world.release(module, selecting("allowed"), regular=OLD)
        await offers(world, module, regular=OLD)
        await world.release(module, selecting("others"), regular=OLD)
        await offers(world, module)
        await world.label_kyma(**{ALLOWED: "others"})
        await offers(world, module, regular=OLD)
        await world.release(module, selecting("nobody"), regular=OLD)
        await offers(world, module)


REFUSED = "the module is not released for this cluster (ModuleNotForThisCluster)"


async def is_refused(world: Product, module: Module) -> None:
    """Wait until both Kymas say that the Kyma may not have a module, and nothing else."""
    await world.module_is(module, State.ERROR)
    await world.kyma_is(State.ERROR)

    async def is_said() -> bool:
        kymas = (await world.kyma(), await world.users_kyma())
        found = [[each.message for each in kyma.status.modules if each.name == module.name] for kyma in kymas]
        return found == [[REFUSED], [REFUSED]]

    await eventually(is_said, what="both Kymas say why")


async def test_restricted_modules(world: Product) -> None:
    async with world.offered(Module(name="unrestricted"), OLD, regular=OLD) as module:
        await world.enable(module)
        await world.installed(module)
        await world.runs(module, OLD)
        await world.disable(module)
        await world.until_gone(module)
        await world.release(module, selecting("others"), regular=OLD)
        await world.enable(module)
        await is_refused(world, module)
        await world.disable(module)
        await world.kyma_is(State.READY)
    module = Module(name="restricted-installed")
    async with world.labelled(ALLOWED, "allowed"), world.offered(module, OLD, spec=selecting("allowed"), regular=OLD):
        for _ in range(2):
            await world.enable(module)
            await world.installed(module)
            await world.has_default_cr(module)
            await world.runs(module, OLD)
            await world.disable(module)
            await world.until_gone(module)
            await world.kyma_is(State.READY)
        await world.enable(module)
        await world.installed(module)
        await world.release(module, selecting("others"), regular=OLD)
        await is_refused(world, module)

        async def is_uninstalled() -> bool:
            return await world.workload(module, OLD) is None and await world.default_cr(module) is None

        await eventually(is_uninstalled, what="the module is uninstalled")
        await is_refused(world, module)
    await world.kyma_is(State.READY)


async def test_modulereleasemeta_not_allowed_installation(world: Product) -> None:
    async with world.offered(Module(name="groups"), OLD, regular=OLD) as module:
        for group in ("beta", "internal"):
            await label_template(world, module, OLD, **{group: "true"})
            await world.enable(module)
            await world.module_is(module, State.ERROR)
            await label_template(world, module, OLD, **{group: None})
            await world.installed(module)
            await world.disable(module)
            await world.until_gone(module)
