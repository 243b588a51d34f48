"""The namespace of what names none, where it is not the one that the Lifecycle Manager itself lives in."""

import pytest

from kube_runtime import NotFound
from lifecycle_manager.contract.resources import NAMESPACES
from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager.module_catalog.module_kinds import ModuleKinds
from lifecycle_manager.module_installation import ManifestSettings
from lifecycle_manager.module_installation.snapshot import affected_part
from lifecycle_manager.settings import Settings, SettingsInvalid
from lifecycle_manager_api import names
from tests import builders
from tests.manifest_clusters import Modules
from tests.modules import Document, default_module_cr, group_of, module_crs, operator

GARDENS = module_crs("garden")
CRD = operator("garden", "1.0.0")[0]
NAMESPACE: Document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "modules"}}


@pytest.fixture
def namespace() -> str:
    return "modules"


def unplaced(document: Document) -> Document:
    metadata = {key: value for key, value in document["metadata"].items() if key != "namespace"}
    return {**document, "metadata": metadata}


def named(api_version: str, kind: str, name: str) -> Document:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}


async def test_what_names_no_namespace_goes_where_the_option_says_and_that_stays_there(world: Modules) -> None:
    objects = [CRD, named("v1", "ConfigMap", "rose"), named(f"{group_of('garden')}/v1", "Garden", "own")]
    manager = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "rose"}
    await world.want([NAMESPACE, *objects], resource=unplaced(default_module_cr("garden")), manager=manager)
    await world.reconcile()
    manifest = await world.manifest()
    assert manifest is not None
    brought = {(each.kind, each.name): each.namespace for each in manifest.status.synced}
    assert brought[("ConfigMap", "rose")] == brought[("Garden", "own")] == "modules"
    assert ("Namespace", "modules") not in brought
    assert (await world.skr.get(GARDENS, "default", "modules"))["metadata"]["namespace"] == "modules"
    default = ObjectReference(group_of("garden"), "Garden", "modules", "default")
    assert affected_part(manifest, default, "modules") == "module-cr"
    assert (await world.condition()).reason == "ModuleCRProcessing"

    await world.delete()
    for _ in range(4):
        await world.reconcile()
    assert await world.manifest() is None
    assert "deletionTimestamp" not in (await world.skr.get(NAMESPACES, "modules"))["metadata"]


async def test_namespace_is_not_made_for_a_module_that_has_nothing_in_it(world: Modules) -> None:
    await world.want([named("v1", "Namespace", "elsewhere")])
    await world.reconcile()
    assert await world.state() == ("Ready", "ModuleReady")
    with pytest.raises(NotFound):
        await world.skr.get(NAMESPACES, "modules")
    await world.want([named("v1", "Namespace", "elsewhere"), named("v1", "ConfigMap", "rose")])
    await world.reconcile()
    assert await world.state() == ("Ready", "ModuleReady")


async def test_events_of_the_default_module_cr_are_known_by_the_same_namespace() -> None:
    async def nothing(_link: str) -> str:
        raise AssertionError

    kind = ModuleKinds(nothing, "modules").of_default(
        builders.template("garden", "1.0.0", data=unplaced(default_module_cr("garden")))
    )
    assert kind is not None
    assert (kind.default_namespace, kind.default_name) == ("modules", "default")


@pytest.mark.parametrize("name", ["", "Modules", "kyma_system", "-modules", "a" * 64, "modules\n"])
def test_name_that_no_namespace_can_have_is_refused_at_start(name: str) -> None:
    with pytest.raises(SettingsInvalid, match="invalid namespace"):
        Settings({"sync_namespace": name})


def test_namespace_is_kyma_system_unless_said_otherwise() -> None:
    assert Settings()[ManifestSettings].namespace == names.SKR_NAMESPACE
