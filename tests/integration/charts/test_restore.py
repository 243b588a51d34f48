"""The backup that docs/install.md describes is enough to restore a control plane that has lost everything."""

import re
from functools import partial
from pathlib import Path
from typing import Any

from kube_runtime import NotFound, NotServed, Resource
from kyma_demo.names import USER
from kyma_demo.object_watcher import CONFIG_MAPS
from kyma_demo.user import INFRASTRUCTURES
from lifecycle_manager_api import names
from lifecycle_manager_api.crds import all_crds
from tests.integration.charts.clusters import HelmClusters
from tests.kinds import SECRETS
from tests.waiting import eventually, is_gone

INSTALL = Path("docs/install.md").read_text()
KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
Document = dict[str, Any]
RESOURCES: dict[str, Resource[Document]] = {
    crd["names"]["kind"]: Resource.dynamic(
        crd["group"], crd["versions"][0]["name"], crd["names"]["kind"], crd["names"]["plural"], namespaced=True
    )
    for crd in (each["spec"] for each in all_crds())
}
# The Kymas come last: no cluster is reconciled before.
ORDER = (
    "ModulePolicy",
    "ModuleTemplate",
    "RolloutStrategy",
    "ModuleReleaseMeta",
    "Watcher",
    "ModuleConfig",
    "SyncResource",
    "Manifest",
    "ModuleRollout",
    "Kyma",
)
SET_BY_THE_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "ownerReferences")


async def test_documented_backup_contains_every_resource() -> None:
    section = INSTALL.partition("## Back-up and restore")[2].partition("\n## ")[0]
    assert set(ORDER) == set(RESOURCES)
    for kind in ORDER:
        assert re.search(rf"\b{kind.removesuffix('y')}(y|ies|s)?\b", section), (
            f"docs/install.md does not mention {kind}s"
        )


async def test_control_plane_continues_from_its_backup(world: HelmClusters) -> None:
    await world.walkthrough.change_volume("510Gi")
    await world.walkthrough.create_second("scratch", "5Gi")
    before = await world.skr.get(CONFIG_MAPS, "default-nfs-media", SKR)

    secrets, objects = await _back_up(world)
    await _lose_everything(world)
    # Meanwhile the user deletes one volume and changes another.
    await world.skr.delete(INFRASTRUCTURES, "second", SKR)
    await world.walkthrough.patch_volume("520Gi")

    await world.install_lifecycle_manager("--set=replicas=0")
    await world.install_module_manager("--set=replicas=0")
    for secret in secrets:
        await world.kcp.create(SECRETS, secret, KCP, field_manager=USER)
    for kind, document in objects:
        await _restore(world, RESOURCES[kind], document)
    # Each SyncResource has to have its ModuleConfig as owner again before Lifecycle Manager starts.
    await world.install_module_manager(command="upgrade")
    await eventually(partial(_all_are_owned, world))
    await world.install_lifecycle_manager(command="upgrade")

    await world.walkthrough.wait_for_volume("520Gi")
    await eventually(lambda: is_gone(world.skr.get(CONFIG_MAPS, "second-nfs-scratch", SKR)))
    after = await world.skr.get(CONFIG_MAPS, "default-nfs-media", SKR)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    await world.walkthrough.change_volume("530Gi")


async def _back_up(world: HelmClusters) -> tuple[list[Document], list[tuple[str, Document]]]:
    """Read the objects that docs/install.md names, without the fields that the API server sets."""
    access = (await world.kcp.list(SECRETS, KCP, label_selector=names.KYMA_NAME)).items
    secrets = [
        *(each for each in access if each["type"] == "Opaque"),
        await world.kcp.get(SECRETS, "klm-watcher", KCP),
    ]
    objects = [(kind, each) for kind in ORDER for each in (await world.kcp.list(RESOURCES[kind], KCP)).items]
    return [_without_server_fields(each) for each in secrets], [
        (kind, _without_server_fields(each)) for kind, each in objects
    ]


async def _lose_everything(world: HelmClusters) -> None:
    """Delete all our objects in the control plane except the CRDs."""
    for release in ("lifecycle-manager", "cloud-resources"):
        await world.kcp_helm.run("uninstall", release, f"--namespace={KCP}", "--wait")
        await eventually(partial(_has_ended, world, release))
    for resource in (*RESOURCES.values(), SECRETS):
        for each in (await world.kcp.list(resource, KCP)).items:
            await _delete_at_once(world, resource, each["metadata"]["name"])

    async def empty() -> bool:
        return not [each for kind in RESOURCES.values() for each in (await world.kcp.list(kind, KCP)).items]

    await eventually(empty)


async def _all_are_owned(world: HelmClusters) -> bool:
    found = (await world.kcp.list(RESOURCES["SyncResource"], KCP)).items
    return all("ownerReferences" in each["metadata"] for each in found)


def _has_ended(world: HelmClusters, release: str) -> bool:
    return not world.kcp_node.runs_of(release)


async def _delete_at_once(world: HelmClusters, resource: Resource[Document], name: str) -> None:
    try:
        await world.kcp.merge_patch(resource, name, {"metadata": {"finalizers": []}}, KCP, field_manager=USER)
        await world.kcp.delete(resource, name, KCP)
    except (NotFound, NotServed):
        return  # the garbage collector was faster


async def _restore(world: HelmClusters, resource: Resource[Document], document: Document) -> None:
    """Create an object, and write its status if that is a subresource."""
    name = document["metadata"]["name"]
    stored = await world.kcp.create(resource, document, KCP, field_manager=USER)
    if "status" in document and "status" not in stored:
        status = {"status": document["status"]}
        await world.kcp.merge_patch(resource, name, status, KCP, subresource="status", field_manager=USER)


def _without_server_fields(document: Document) -> Document:
    metadata = {key: value for key, value in document["metadata"].items() if key not in SET_BY_THE_SERVER}
    return {**document, "metadata": metadata}
