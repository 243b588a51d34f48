"""Mandatory modules on a simulated control plane: what is installed, told, held and let go."""

from typing import Any

import pytest

from kube_runtime import KubeError, Resource
from kube_simulation import Refuse
from lifecycle_manager.resources import (
    MODULE_RELEASE_METAS,
    MODULE_TEMPLATES,
)
from lifecycle_manager_api import names
from tests import builders
from tests.kyma_world import NO_API, is_manifest, kyma_world
from tests.waiting import is_gone


async def test_mandatory_module_that_the_control_plane_refuses_holds_no_other_up() -> None:
    async with kyma_world() as world:
        for module in ("api", "nats"):
            await world.offer(builders.template(module, "1.0.0", installs=True, mandatory=True))
        await world.register()
        await world.introduced()
        with world.cluster("kcp").ruled_by(Refuse(is_manifest("api"), refused=NO_API)), pytest.raises(KubeError):
            await world.install_mandatory()
        assert list(await world.manifests()) == ["demo-nats"]


async def test_release_whose_version_has_no_template_yet_is_told_and_the_module_stays() -> None:
    async with kyma_world() as world:
        await world.register()
        await world.introduced()
        await world.offer(builders.template("warden", "1.0.0", installs=True))
        await world.offer(builders.release("warden", mandatory="1.0.0"))
        await world.install_mandatory()
        await world.offer(builders.release("warden", mandatory="2.0.0"))
        await world.install_mandatory()
        assert await world.manifests() == {"demo-warden": "1.0.0"}
        assert ("CannotBeInstalled", "the version that is mandatory has no ModuleTemplate") in world.events
        await world.offer(builders.template("warden", "2.0.0", installs=True))
        await world.install_mandatory()
        assert await world.manifests() == {"demo-warden": "2.0.0"}
        await world.install_mandatory("unknown")


@pytest.mark.parametrize(
    ("kind", "resource", "name"),
    [("ModuleTemplate", MODULE_TEMPLATES, "warden-1.0.0"), ("ModuleReleaseMeta", MODULE_RELEASE_METAS, "warden")],
)
async def test_what_makes_a_module_mandatory_goes_after_the_last_manifest(
    kind: str, resource: Resource[Any], name: str
) -> None:
    async def is_held() -> bool:
        found = await world.kcp.get(resource, name, names.KCP_NAMESPACE)
        return names.MANDATORY_FINALIZER in found.metadata.finalizers

    async with kyma_world() as world:
        await world.register()
        await world.introduced()
        await world.offer(builders.template("warden", "1.0.0", installs=True))
        assert await world.retire(kind, "unknown") == await world.retire("ModuleTemplate", "warden-1.0.0")
        await world.offer(builders.release("warden", mandatory="1.0.0"))
        await world.retire(kind, name)
        await world.install_mandatory()
        assert await is_held()
        before = world.asked
        await world.retire(kind, name)
        assert world.writes_to("kcp", before) == []

        await world.kcp.delete(resource, name, names.KCP_NAMESPACE)
        assert (await world.retire(kind, name)).requeue_after is not None
        assert await is_held()
        await world.install_mandatory()
        await world.uninstall()
        assert await world.manifests() == {}
        await world.retire(kind, name)
        assert await is_gone(world.kcp.get(resource, name, names.KCP_NAMESPACE))


async def test_module_that_is_mandatory_in_one_version_can_not_be_chosen_in_another() -> None:
    """Each of the two would write the same Manifest, in turns and for ever."""
    async with kyma_world() as world:
        await world.register("demo", "warden")
        older = builders.template("warden", "1.0.0", mandatory=True, installs=True)
        newer = builders.template("warden", "2.0.0", channel="regular", installs=True)
        await world.offer(older, newer)
        await world.introduced()
        await world.install_mandatory()
        await world.reconcile(times=2)
        before = world.asked
        for _ in range(2):
            await world.reconcile()
            await world.install_mandatory()
        assert [each for each in world.writes_to("kcp", before) if "manifests" in each.path] == []
        assert await world.manifests() == {"demo-warden": "1.0.0"}
        (module,) = (await world.in_kcp()).status.modules
        assert "is mandatory" in module.message
