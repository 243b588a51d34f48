"""The takeover of a cluster comes to the same end whatever happens to Lifecycle Manager on the way.

The users are the former version: it has left its objects behind when it gives up its Lease, for which ours waits.
"""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import msgspec
import pytest

from kyma_takeover import lease
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS, SECRETS
from lifecycle_manager.skr.access import SkrAccessError
from lifecycle_manager_api import State, crds, find, names
from tests.faults import Users, Workload, check_under_faults
from tests.kubeconfigs import kubeconfig
from tests.registries import BlobServer, blob_server
from tests.takeover_from_go import modules, surroundings
from tests.takeover_from_go.cert_manager import NAMESPACE as CA_NAMESPACE
from tests.takeover_from_go.played import run_deployments, samples_of
from tests.takeover_from_go.recordings import REGISTRY, Document, restore
from tests.takeover_from_go.restored import filled
from tests.takeover_from_go.starts import DESCRIPTOR_IN_TEMPLATE, KYMA, MODULE, descriptor_of, start, stopped_lease
from tests.unit.kyma.test_faults import MAX_ATTEMPTS, PLACES, SECONDS, process

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
HELD = stopped_lease(holderIdentity="former", renewTime="9999-12-31T23:59:59.999999Z")
IN_CLUSTERS = ("Kyma", "ModuleTemplate", "ModuleReleaseMeta")
"""Kinds of ours that clusters have too."""
LEFT = {
    "kcp": {"Kyma", "Secret", "ModuleTemplate", "ModuleReleaseMeta", "Manifest"},
    "skr-1": {"Kyma", "Secret", "ModuleReleaseMeta", "Sample", *(each["kind"] for each in MODULE.objects(modules.OLD))},
}


def kubeconfig_of(server: str) -> str:
    return msgspec.json.encode(kubeconfig({}, server=server)).decode()


async def leave_behind(layers: BlobServer, users: Users) -> None:
    """Restore what the former version left of one module, without the Watcher, and publish the next version."""
    kcp, skr = users.clients["kcp"], users.clients["skr"]
    for version in (modules.OLD, modules.NEW):
        layers.hold(MODULE.layer(version).content)
    contents = {
        surroundings.PULL_SECRET: {".dockerconfigjson": b"{}"},
        f"kubeconfig-{KYMA}": {"config": kubeconfig_of(skr.server).encode()},
    }
    for client, cluster in ((skr, "skr-1"), (kcp, "kcp")):
        left = [each for each in start(cluster, DESCRIPTOR_IN_TEMPLATE, chosen=(MODULE,)) if is_left(cluster, each)]
        crds_first = sorted(left, key=lambda it: it["kind"] not in {"CustomResourceDefinition", "Kyma"})
        await restore(client, [filled(each, contents) for each in crds_first], {REGISTRY: layers.host})
    template = MODULE.template(modules.NEW)
    template["spec"]["descriptor"] = descriptor_of(MODULE, modules.NEW, layers.host)
    for each in (template, MODULE.release_meta(regular=modules.OLD, fast=modules.NEW)):
        await surroundings.apply(kcp, each, "modulectl")
    labels = {"metadata": {"labels": {names.MANAGED_BY: names.LIFECYCLE_MANAGER}}}  # as klm adopt does
    await kcp.merge_patch(SECRETS, f"kubeconfig-{KYMA}", labels, KCP, field_manager="klm")


def is_left(cluster: str, document: Document) -> bool:
    metadata = document["metadata"]
    is_ours = document["kind"] != "CustomResourceDefinition" or MODULE.group in metadata["name"]
    is_of_the_watcher = metadata["name"].endswith("webhook-tls") or "webhook" in metadata["name"]
    return (
        document["kind"] in LEFT[cluster]
        and is_ours
        and not is_of_the_watcher
        and metadata.get("namespace") != CA_NAMESPACE
    )


async def give_up(users: Users) -> None:
    """Give up the Lease, and wait until ours has taken over."""
    released = {"spec": {"holderIdentity": ""}}
    await users.clients["kcp"].merge_patch(lease.LEASES, lease.LEASE, released, KCP, field_manager="former")
    for _ in range(MAX_ATTEMPTS):  # not seconds: a machine that is paused has none
        kyma = await users.clients["kcp"].get(KYMAS, KYMA, KCP)
        catalog = find(kyma.status.conditions, "ModuleCatalog")
        if catalog is not None and catalog.reason == "Synced":
            break
        await asyncio.sleep(0.1)
    await users.settled()


async def choose(users: Users, channel: str, *modules: str) -> None:
    chosen = {"spec": {"channel": channel, "modules": [{"name": each, "managed": True} for each in modules]}}
    await users.clients["skr"].merge_patch(KYMAS, names.DEFAULT_KYMA_NAME, chosen, SKR, field_manager="user")
    await users.settled()


async def until_ready(users: Users) -> None:
    """Wait until the one Manifest is ready, which is reconciled the less often the longer it takes."""
    for _ in range(MAX_ATTEMPTS):
        found = (await users.clients["kcp"].list(MANIFESTS, KCP)).items
        if [each.status.state for each in found] == [State.READY]:
            break
        await asyncio.sleep(0.1)


async def take_over_and_upgrade(layers: BlobServer, users: Users) -> None:
    """Take a module over whose default Module CR its user has deleted, upgrade it, and disable it."""
    await leave_behind(layers, users)
    skr = users.clients["skr"]
    await skr.delete(samples_of(MODULE), MODULE.name, SKR)
    await give_up(users)
    await choose(users, "fast", MODULE.name)
    await run_deployments(skr)
    await until_ready(users)
    await users.settled()
    await choose(users, "fast")


def workload(script: Any, layers: BlobServer) -> Workload:
    kcp, skr = ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (KCP, SKR))
    in_skr = [crds.crd_for(kind) for kind in crds.KINDS if kind.KIND in IN_CLUSTERS]

    return Workload(
        process=partial(process, prepare=lambda manager: lease.setup(manager, manager.client)),
        script=partial(script, layers),
        clusters=("kcp", "skr"),
        initial={"kcp": (kcp, HELD, *crds.all_crds()), "skr": (skr, *in_skr)},
        ignored=frozenset({"catalog", "config", "observedGeneration"}),
        foreseen=(SkrAccessError,),
        resync_seconds=SECONDS,
    )


@pytest.fixture
async def layers() -> AsyncIterator[BlobServer]:
    async with blob_server() as server:
        yield server


async def test_module_is_taken_over_the_same_whatever_happens(layers: BlobServer) -> None:
    report = await check_under_faults(workload(take_over_and_upgrade, layers), max_places=PLACES, timeout_seconds=90)
    report.raise_findings()
    assert report.runs["KillAfterWrite"] == report.runs["CutAtAwait"] == PLACES
