"""Modules are installed, kept as they are, and upgraded."""

import msgspec
import pytest

from lifecycle_manager.contract.resources import MANIFESTS, MODULE_TEMPLATES
from lifecycle_manager_api import State, names
from tests.e2e.upstream.modules import BROKEN_IMAGE, NEW, OLD, Document, Module
from tests.e2e.upstream.product import GLOBAL_ACCOUNT, KCP, SKR, Product
from tests.e2e.upstream.runtime import WORKLOADS
from tests.integration.lifecycle_manager.catalog_entries import put_in_catalog
from tests.kinds import NAMESPACES
from tests.waiting import consistently, eventually

DEPLOYMENTS = WORKLOADS["Deployment"]
WAITING = "waiting as other finalizers are present: example.com/blocking"
MANAGED = (names.MANAGED_BY, names.LIFECYCLE_MANAGER)
OURS = (
    ("operator.kyma-project.io/v1beta2", "Kyma", "default"),
    ("apps/v1", "Deployment", "skr-webhook"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "skr-webhook"),
    ("v1", "Secret", "skr-webhook-tls"),
    ("v1", "Namespace", SKR),
)


async def test_labelling(world: Product) -> None:
    for version, kind, name in OURS:
        resource = await world.skr.mapper.resource(version, kind)
        live = await world.skr.get(resource, name, SKR if resource.namespaced else None)
        assert MANAGED in live["metadata"]["labels"].items(), kind
    namespace = (await world.skr.get(NAMESPACES, SKR))["metadata"]["labels"]
    assert namespace["istio-injection"] == "enabled"
    assert namespace["namespaces.warden.kyma-project.io/validate"] == "enabled"
    labels = (await world.users_kyma()).metadata.labels
    assert labels[names.WATCHED_BY] == "kyma"
    assert labels[names.GLOBAL_ACCOUNT_ID] == GLOBAL_ACCOUNT
    assert labels[names.SUBACCOUNT_ID] == "dummy-sub-account"
    async with world.offered(Module(name="labelled")) as module:
        await world.enable(module)
        await world.installed(module)
        manifest = await world.manifest(module)
        assert manifest is not None
        expected = {MANAGED, (names.PART_OF, "Kyma"), (names.COMPONENT, manifest.metadata.name)}
        for live in await world.synced(module):
            assert expected <= live["metadata"]["labels"].items()
            assert "DO NOT EDIT" in live["metadata"]["annotations"][names.DISCLAIMER]


async def test_module_consistency(world: Product) -> None:
    async with world.offered(Module(name="consistent")) as module:
        await world.enable(module)
        await world.installed(module)
        await world.runs(module, OLD)
        before = {each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in await world.synced(module)}
        await world.skip(module)
        await world.skr.delete(DEPLOYMENTS, module.operator(OLD), SKR)
        await world.skip(module, skipped=False)
        await world.runs(module, OLD)
        after = {each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in await world.synced(module)}
        assert len(before.items() & after.items()) == len(before) - 1


async def test_manifest_reconciliation(world: Product) -> None:
    async with world.offered(Module(name="skipped")) as module:
        await world.enable(module)
        await world.installed(module)
        manifest = await world.manifest(module)
        assert manifest is not None
        assert manifest.metadata.labels[names.CHANNEL] == "regular"
        await world.skip(module)
        await world.skr.delete(DEPLOYMENTS, module.operator(OLD), SKR)

        async def is_gone() -> bool:
            return await world.workload(module, OLD) is None

        async with world.labelled("seen", "true"):  # the Kyma is reconciled, and with it its Manifests
            await world.kyma_is(State.READY)
            await consistently(is_gone, what="the operator of a module that is skipped stays deleted")
        await world.skip(module, skipped=False)
        await world.runs(module, OLD)
        await world.kyma_is(State.READY)
        held = {"metadata": {"finalizers": [names.MANIFEST_FINALIZER, "example.com/blocking"]}}
        await world.kcp.merge_patch(MANIFESTS, manifest.metadata.name, held, KCP)
        await world.disable(module)
        await world.manifest_is(module, State.DELETING)

        async def waits_for_the_finalizer() -> bool:
            waiting = await world.manifest(module)
            assert waiting is not None
            assert waiting.metadata.being_deleted
            assert waiting.status.state is State.DELETING
            assert waiting.status.last_operation is not None
            return waiting.status.last_operation.operation == WAITING

        await eventually(waits_for_the_finalizer, what="the Manifest names the finalizer")
        await consistently(waits_for_the_finalizer, what="the Manifest names the finalizer")
        await world.kcp.merge_patch(MANIFESTS, manifest.metadata.name, {"metadata": {"finalizers": []}}, KCP)


async def test_edited_manifest_is_reset(world: Product) -> None:
    async with world.offered(Module(name="edited")) as module:
        await world.enable(module)
        await world.installed(module)
        before = await world.manifest(module)
        assert before is not None
        edit = {"spec": {"customResourcePolicy": "Ignore", "resource": {"spec": {"more": 1}}}}
        await world.kcp.merge_patch(MANIFESTS, before.metadata.name, edit, KCP, field_manager="operator")

        async def is_reset() -> bool:
            found = await world.manifest(module)
            return found is not None and found.spec == before.spec

        await eventually(is_reset, what="the Manifest is as before")
        await world.installed(module)


async def default_of(world: Product, module: Module) -> tuple[str, str, str]:
    """Return the version, name and namespace of the default Module CR, as the Manifest has it."""
    manifest = await world.manifest(module)
    assert manifest is not None
    assert manifest.spec.resource is not None
    resource = msgspec.json.decode(manifest.spec.resource)
    group, _, version = resource["apiVersion"].partition("/")
    assert (group, resource["kind"]) == (module.group, "Sample")
    return version, resource["metadata"]["name"], resource["metadata"]["namespace"]


@pytest.mark.parametrize("workload", ["Deployment", "StatefulSet"])
async def test_module_status_decoupling(world: Product, workload: str) -> None:
    async with world.offered(Module(name=f"decoupled-{workload.lower()}", workload=workload)) as module:
        await world.enable(module)
        await world.installed(module)
        await world.runs(module, OLD)
        assert await default_of(world, module) == ("v1", "sample", SKR)
        world.runtime.states[module.name] = "Warning"
        await world.module_is(module, State.WARNING)
        await world.hold(module)
        await world.disable(module)
        await world.kyma_is(State.PROCESSING)
        await world.manifest_is(module, State.DELETING)

        async def is_decoupled() -> bool:
            manifest, cr = await world.manifest(module), await world.default_cr(module)
            assert manifest is not None
            assert cr is not None
            states = (manifest.status.state, (await world.kyma()).status.state, cr["status"]["state"])
            return states == (State.DELETING, State.PROCESSING, "Warning")

        await consistently(is_decoupled, what="the Module CR is Warning, its module Deleting, the Kyma Processing")
        assert await world.workload(module, OLD) is not None
        await world.hold(module, held=False)
        await world.until_gone(module)
        assert await world.workload(module, OLD) is None
        await world.kyma_is(State.READY)


@pytest.mark.parametrize("workload", ["Deployment", "StatefulSet"])
async def test_module_status_decoupling_with_wrong_image(world: Product, workload: str) -> None:
    module = Module(name=f"failing-{workload.lower()}", workload=workload, image=BROKEN_IMAGE)
    async with world.offered(module):
        await world.enable(module)
        await world.module_is(module, State.ERROR)
        await world.kyma_is(State.ERROR)
        assert await world.default_cr(module) is None
        assert await default_of(world, module) == ("v1", "sample", SKR)
        await world.disable(module)
        await world.until_gone(module)
        assert await world.default_cr(module) is None
        assert await world.workload(module, OLD) is None
    await world.kyma_is(State.READY)


async def test_module_upgrade_channel_switch(world: Product) -> None:
    async with world.offered(Module(name="switched")) as module:
        await world.enable(module, "regular")
        await world.installed(module)
        await world.runs(module, OLD)
        await world.enable(module, "fast")
        await world.installed(module, NEW)
        await world.runs(module, NEW, but_not=OLD)
        await world.has_default_cr(module)
        await world.enable(module, "regular")
        status = await world.module_is(module, State.WARNING, version=NEW)
        assert "DowngradeNotAllowed" in status.message or "downgrade" in status.message
        await world.runs(module, NEW, but_not=OLD)


async def test_module_upgrade_new_version(world: Product) -> None:
    async with world.offered(Module(name="upgraded")) as module:
        await world.enable(module)
        await world.installed(module)
        await world.release(module, regular=NEW, fast=NEW)
        await world.installed(module, NEW)
        await world.runs(module, NEW, but_not=OLD)
        await world.has_default_cr(module)
        manifest = await world.manifest(module)
        assert manifest is not None
        assert manifest.spec.version == NEW


async def test_modulereleasemeta_watch_trigger(world: Product) -> None:
    async with world.offered(Module(name="triggered")) as module:
        await world.enable(module)
        await world.installed(module)
        await world.release(module, regular="9.9.9", fast=NEW)
        status = await world.module_is(module, State.ERROR)
        assert "9.9.9" in status.message
        await world.kyma_is(State.ERROR)
        await world.release(module, regular=OLD, fast=NEW)
        await world.installed(module)


async def test_module_transferred_to_another_oci_registry(world: Product) -> None:
    local = "eu.registry.example.com/restricted/operator:1.0.0"
    async with world.offered(Module(name="transferred")) as module:
        (document,) = module.templates(world.layers, OLD)
        access = {"type": "ociArtifact", "imageReference": local}
        image = {"name": "operator", "type": "ociArtifact", "version": OLD, "relation": "external", "access": access}
        document["spec"]["descriptor"]["component"]["resources"].append(image)
        await put_in_catalog(world.kcp, document)
        await world.enable(module)
        await world.installed(module)
        manifest = await world.manifest(module)
        assert manifest is not None
        assert manifest.spec.localized_images == (local,)
        live = await world.workload(module, OLD)
        assert live is not None
        assert live["spec"]["template"]["spec"]["containers"][0]["image"] == local


async def test_module_unmanage(world: Product) -> None:
    async with world.offered(Module(name="unmanaged")) as module:
        await world.enable(module)
        await world.installed(module)
        objects = await world.synced(module)
        uids = {each["metadata"]["uid"] for each in objects}
        assert all(MANAGED in each["metadata"]["labels"].items() for each in objects)
        await world.enable(module, managed=False)

        async def is_released() -> bool:
            live = [await current(world, each) for each in objects]
            cr = await world.default_cr(module)
            assert cr is not None
            return not any(names.MANAGED_BY in each["metadata"].get("labels", ()) for each in (*live, cr))

        await eventually(is_released, what="the objects have no owner")
        await world.kyma_is(State.READY)
        await world.measures(1.0, "lifecycle_mgr_module_state", module_name=module.name, state="Unmanaged")
        await world.enable(module)
        await world.installed(module)
        await world.measures(0.0, "lifecycle_mgr_module_state", module_name=module.name, state="Unmanaged")
        await world.enable(module, managed=False)
        await world.module_is(module, State.UNMANAGED)
        await world.disable(module)
        await world.until_gone(module)

        async def are_there() -> bool:
            assert {each["metadata"]["uid"] for each in [await current(world, each) for each in objects]} == uids
            return await world.default_cr(module) is not None

        await consistently(are_there, what="the objects of a module that was unmanaged and then disabled are there")
        await world.enable(module, customResourcePolicy="Ignore")
        await world.installed(module)
        await world.skr.delete(module.samples(), "sample", SKR)  # it is the user's now, and would block the removal
    await world.until_lacks(MODULE_TEMPLATES, "unmanaged-1.0.0", KCP, of=world.kcp)


async def current(world: Product, thing: Document) -> Document:
    resource = await world.skr.mapper.resource(thing["apiVersion"], thing["kind"])
    metadata = thing["metadata"]
    live: Document = await world.skr.get(resource, metadata["name"], metadata.get("namespace"))
    return live
