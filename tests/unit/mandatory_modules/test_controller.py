"""Mandatory modules on a simulated KCP: what is installed, reported, held and deleted."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from kube_runtime import Conflict, Forbidden, Resource, Result
from kube_simulation import Freeze, Refuse, Refused
from lifecycle_manager import mandatory_modules
from lifecycle_manager.contract.conditions import MANDATORY_MODULES as MANDATORY
from lifecycle_manager.contract.resources import (
    DATED_RELEASE_METAS,
    KYMAS,
    MANIFESTS,
    MODULE_RELEASE_METAS,
    MODULE_TEMPLATES,
)
from lifecycle_manager.mandatory_modules import MandatorySettings, ReleaseKey
from lifecycle_manager.mandatory_modules.rules import NO_TEMPLATE
from lifecycle_manager.mandatory_modules.status import CANNOT_BE_INSTALLED
from lifecycle_manager.options.kymas import RolloutSettings
from lifecycle_manager_api import find, names
from tests import builders
from tests.waiting import eventually, is_gone
from tests.world import KCP, NO_API, World, is_manifest, key_of, open_world


@asynccontextmanager
async def mandatory_world(**settings: Any) -> AsyncIterator[World]:
    async with open_world(**settings) as world:
        mandatory_modules.setup(world.manager, world.offers, MandatorySettings(), world.settings.rollout)
        yield world


async def install(world: World, name: str = "demo") -> Result:
    return await world.turn("mandatory-modules", key_of(name))


async def retire(world: World, kind: str, name: str) -> Result:
    return await world.turn("mandatory-modules-deletion", ReleaseKey(kind, KCP, name))


@pytest.mark.parametrize("decisive", [True, False], ids=["another refusal", "conflicts alone"])
async def test_refusals_end_the_installation_with_the_first_of_them(decisive: bool) -> None:
    conflict = Refused(409, "Conflict", "written meanwhile")
    async with mandatory_world() as world:
        for module in ("api", "nats", "warden"):
            await world.offer(builders.template(module, "1.0.0", installs=True, mandatory=True))
        await world.register()
        await world.introduced()
        rules = [Refuse(is_manifest("api"), refused=conflict), Refuse(is_manifest("warden"), refused=conflict)]
        if decisive:
            rules.append(Refuse(is_manifest("nats"), refused=NO_API))
        with world.cluster("kcp").ruled_by(*rules), pytest.raises(Forbidden if decisive else Conflict):
            await install(world)
        assert await world.manifests() == ({} if decisive else {"demo-nats": "1.0.0"})


async def test_release_whose_version_has_no_template_yet_is_reported_and_the_module_stays() -> None:
    async with mandatory_world() as world:
        await world.register()
        await world.introduced()
        await world.offer(builders.template("warden", "1.0.0", installs=True))
        await world.offer(builders.release("warden", mandatory="1.0.0"))
        await install(world)
        await world.offer(builders.release("warden", mandatory="2.0.0"))
        await install(world)
        assert await world.manifests() == {"demo-warden": "1.0.0"}
        assert (CANNOT_BE_INSTALLED, NO_TEMPLATE) in world.events
        await world.offer(builders.template("warden", "2.0.0", installs=True))
        await install(world)
        assert await world.manifests() == {"demo-warden": "2.0.0"}
        assert await install(world, "unknown") == Result()


@pytest.mark.parametrize(
    ("kind", "resource", "name"),
    [("ModuleTemplate", MODULE_TEMPLATES, "warden-1.0.0"), ("ModuleReleaseMeta", MODULE_RELEASE_METAS, "warden")],
)
async def test_release_of_a_mandatory_module_is_deleted_after_the_last_manifest(
    kind: str, resource: Resource[Any], name: str
) -> None:
    async def is_held() -> bool:
        found = await world.kcp.get(resource, name, names.KCP_NAMESPACE)
        return names.MANDATORY_FINALIZER in found.metadata.finalizers

    async with mandatory_world() as world:
        await world.register()
        await world.introduced()
        await world.offer(builders.template("warden", "1.0.0", installs=True))
        assert await retire(world, kind, "unknown") == await retire(world, "ModuleTemplate", "warden-1.0.0")
        await world.offer(builders.release("warden", mandatory="1.0.0"))
        await retire(world, kind, name)
        await install(world)
        assert await is_held()
        before = world.requests
        await retire(world, kind, name)
        assert world.writes_to("kcp", before) == []

        await world.kcp.delete(resource, name, names.KCP_NAMESPACE)
        assert (await retire(world, kind, name)).requeue_after is not None
        assert await is_held()
        await install(world)
        await world.uninstall()
        assert await world.manifests() == {}
        await retire(world, kind, name)
        assert await is_gone(world.kcp.get(resource, name, names.KCP_NAMESPACE))


async def test_release_does_not_wait_for_manifests_that_users_chose() -> None:
    async with mandatory_world() as world:
        await world.offer(builders.template("warden", "1.0.0", installs=True, mandatory=True))
        await retire(world, "ModuleTemplate", "warden-1.0.0")
        await world.create(builders.manifest("warden", "1.0.0"))
        await world.kcp.delete(MODULE_TEMPLATES, "warden-1.0.0", KCP)
        await retire(world, "ModuleTemplate", "warden-1.0.0")
        assert await is_gone(world.kcp.get(MODULE_TEMPLATES, "warden-1.0.0", KCP))


async def test_release_that_leaves_without_the_finalizer_is_not_written() -> None:
    async with mandatory_world() as world:
        await world.register()
        await world.introduced()
        await world.offer(builders.template("warden", "1.0.0", installs=True, mandatory=True))
        await install(world)
        held_by_others = {"metadata": {"finalizers": ["example.com/others"]}}
        await world.kcp.merge_patch(MODULE_TEMPLATES, "warden-1.0.0", held_by_others, KCP)
        await world.kcp.delete(MODULE_TEMPLATES, "warden-1.0.0", KCP)
        before = world.requests
        assert (await retire(world, "ModuleTemplate", "warden-1.0.0")).requeue_after is not None
        assert world.writes_to("kcp", before) == []


async def test_removal_from_very_many_clusters_waits_for_an_operator_and_can_be_taken_back() -> None:
    kymas = ("a", "b", "c")

    async def conditions() -> set[str]:
        found = [find((await world.in_kcp(name)).status.conditions, MANDATORY) for name in kymas]
        return {each.reason for each in found if each is not None}

    async with mandatory_world(rollout=RolloutSettings(max_changed="2")) as world:
        await world.offer(builders.template("warden", "1.0.0", installs=True, mandatory=True))
        for name in kymas:
            await world.register(name)
            await world.introduced(name)
            await install(world, name)
        await retire(world, "ModuleTemplate", "warden-1.0.0")
        installed = await world.manifests()
        assert len(installed) == 3

        await world.kcp.delete(MODULE_TEMPLATES, "warden-1.0.0", KCP)
        for name in kymas:
            await install(world, name)
        assert await world.manifests() == installed
        assert await being_deleted(world) == []
        assert await conditions() == {"DeletionHeld"}

        await world.offer(builders.template("warden", "1.0.1", installs=True, mandatory=True))
        for name in kymas:
            await install(world, name)
        assert await being_deleted(world) == [], "the modules were never removed"
        assert set((await world.manifests()).values()) == {"1.0.0"}, "another version for so many goes in waves"
        assert await conditions() == {"ManifestsWritten"}

        await retire(world, "ModuleTemplate", "warden-1.0.1")
        await world.kcp.delete(MODULE_TEMPLATES, "warden-1.0.1", KCP)
        for name in kymas:
            await install(world, name)
        word = {"metadata": {"annotations": {names.CONTINUE_DELETION: "2126-01-01T00:00:00+00:00"}}}
        await world.kcp.merge_patch(KYMAS, "a", word, KCP)
        for name in kymas:
            await install(world, name)
            world.clock.advance(1)
        assert [name for name in await world.manifests() if name not in await being_deleted(world)] == [
            "b-warden",
            "c-warden",
        ]
        (leaving,) = [each for each in (await world.kcp.list(MANIFESTS, KCP)).items if each.metadata.being_deleted]
        assert names.REMOVED_SINCE in leaving.metadata.annotations, "the brake does not ask for another word"


async def test_module_stays_whose_release_a_restore_has_not_brought_yet() -> None:
    """Velero creates objects by the names of their kinds: Manifests before ModuleReleaseMetas and ModuleTemplates."""
    async with mandatory_world() as world:
        await world.register()
        await world.introduced()
        await world.create(builders.manifest("warden", "0.9.0", mandatory=True))
        await install(world)
        assert await world.manifests() == {"demo-warden": "0.9.0"}
        await world.offer(builders.template("warden", "1.0.0", installs=True, mandatory=True))
        await install(world)
        assert await world.manifests() == {"demo-warden": "1.0.0"}


async def being_deleted(world: World) -> list[str]:
    found = (await world.kcp.list(MANIFESTS, KCP)).items
    return [each.metadata.name for each in found if each.metadata.being_deleted]


async def test_module_that_is_mandatory_in_one_version_can_not_be_chosen_in_another() -> None:
    """Each of the two would write the same Manifest, in turns and for ever."""
    async with mandatory_world() as world:
        await world.register("demo", "warden")
        older = builders.template("warden", "1.0.0", mandatory=True, installs=True)
        newer = builders.template("warden", "2.0.0", channel="regular", installs=True)
        await world.offer(older, newer)
        await world.introduced()
        await install(world)
        await world.reconcile(times=2)
        before = world.requests
        for _ in range(2):
            await world.reconcile()
            await install(world)
        assert [each for each in world.writes_to("kcp", before) if "manifests" in each.path] == []
        assert await world.manifests() == {"demo-warden": "1.0.0"}
        (module,) = (await world.in_kcp()).status.modules
        assert "is mandatory" in module.message


async def test_manifest_that_the_cache_does_not_have_yet_is_not_applied_again() -> None:
    async with mandatory_world() as world:
        await world.register()
        await world.introduced()
        await world.offer(builders.template("warden", "1.0.0", installs=True, mandatory=True))
        await world.sync_caches()
        kcp = world.cluster("kcp")
        world.unseen.add("manifests")
        with kcp.ruled_by(Freeze(kcp.version, lambda request: request.verb == "watch" and "manifests" in request.path)):
            await install(world)
            before = world.requests
            await install(world)
            assert world.writes_to("kcp", before) == []
        world.unseen.clear()


async def test_mandatory_template_is_installed_held_and_removed_by_triggers_alone() -> None:
    async def finalizers() -> tuple[str, ...]:
        return tuple((await world.kcp.get(MODULE_TEMPLATES, "warden-1.0.0", KCP)).metadata.finalizers)

    async with mandatory_world() as world:
        await world.register()
        async with world.running():
            await world.offer(builders.template("warden", "1.0.0", installs=True, mandatory=True))
            await eventually(lambda: _is({"demo-warden": "1.0.0"}, world))
            await eventually(finalizers)
            await world.kcp.delete(MODULE_TEMPLATES, "warden-1.0.0", KCP)
            await eventually(lambda: _is_removed(world))
            await eventually(lambda: is_gone(world.kcp.get(MODULE_TEMPLATES, "warden-1.0.0", KCP)))


async def _is(manifests: dict[str, str], world: World) -> bool:
    return await world.manifests() == manifests


async def _is_removed(world: World) -> bool:
    await world.uninstall()
    return await world.manifests() == {}


async def test_module_that_becomes_mandatory_is_managed_again() -> None:
    async with mandatory_world() as world:
        await world.register()
        await world.introduced()
        await world.offer(builders.template("warden", "1.0.0", channel="regular", installs=True))
        await world.choose("warden")
        await world.reconcile(times=2)
        await world.choose("warden", managed=False)
        await world.reconcile()
        (held,) = (await world.kcp.list(MANIFESTS, KCP)).items
        assert names.IS_UNMANAGED in held.metadata.annotations
        await world.offer(builders.template("warden", "2.0.0", installs=True, mandatory=True))
        await install(world)
        (held,) = (await world.kcp.list(MANIFESTS, KCP)).items
        assert held.metadata.labels[names.MANDATORY_MODULE] == "true"
        assert names.IS_UNMANAGED not in held.metadata.annotations


async def test_removal_that_an_operator_continued_is_not_held_again_after_a_restart() -> None:
    kymas = ("a", "b", "c")
    async with mandatory_world(rollout=RolloutSettings(max_changed="2")) as world:
        await world.offer(builders.template("warden", "1.0.0", installs=True))
        await world.offer(builders.release("warden", mandatory="1.0.0"))
        for name in kymas:
            await world.register(name)
            await world.introduced(name)
            await install(world, name)
        await world.offer(builders.release("warden", regular="1.0.0"))
        await world.sync_caches()
        (release,) = world.manager.informer(DATED_RELEASE_METAS).list()
        assert release.metadata.written_at is not None
        said_at = release.metadata.written_at + timedelta(seconds=1)
        word = {"metadata": {"annotations": {names.CONTINUE_DELETION: said_at.isoformat()}}}
        for name in kymas:
            await world.kcp.merge_patch(KYMAS, name, word, KCP)
        # A new process sees only now that the module is not mandatory any more.
        world.clock.advance(max((said_at - world.clock.now()).total_seconds(), 0) + 60)
        for name in kymas:
            await install(world, name)
        assert len(await being_deleted(world)) == 3
