"""The takeover of a cluster comes to the same end whatever happens to Lifecycle Manager on the way.

The users are the former version: it has left its objects behind when it gives up its Lease, for which ours waits.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kube_simulation.faults import Users, Workload, check_under_faults
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS
from lifecycle_manager.takeover import lease
from lifecycle_manager_api import State, crds, find, names
from tests.integration.takeover import seeding
from tests.registries import BlobServer, blob_server
from tests.unit.kyma.test_faults import MAX_ATTEMPTS, PLACES, SECONDS, process

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
HELD = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": lease.LEASE, "namespace": KCP},
    "spec": {"holderIdentity": "former", "leaseDurationSeconds": 180, "renewTime": "2100-01-01T00:00:00.000000Z"},
}


def kubeconfig_of(server: str) -> str:
    document = {
        "current-context": "skr",
        "contexts": [{"name": "skr", "context": {"cluster": "skr", "user": "user"}}],
        "clusters": [{"name": "skr", "cluster": {"server": server}}],
        "users": [{"name": "user", "user": {}}],
    }
    return msgspec.json.encode(document).decode()


async def leave_behind(layers: BlobServer, users: Users) -> None:
    """Write what the former version leaves behind, without the Watcher; then give up its Lease."""
    kcp, skr = users.clients["kcp"], users.clients["skr"]
    first, second = (layers.hold(seeding.module_text(number).encode()) for number in (1, 2))
    seed = seeding.Seed(registry=layers.host, layers=(first, second), kubeconfig=kubeconfig_of(skr.server))
    await seeding.install_module(skr)
    await seeding.write(skr, "cluster", seed)
    await seeding.write(kcp, "catalog", seed)
    kyma = seeding.writes_of("control_plane", seed)[0]
    await seeding.carry_out(kcp, kyma)
    seed = replace(seed, kyma_uid=(await kcp.get(KYMAS, seeding.KYMA, KCP)).metadata.uid)
    for each in seeding.writes_of("control_plane", seed)[1:]:
        await seeding.carry_out(kcp, each)


async def give_up(users: Users) -> None:
    """Give up the Lease, and wait until ours has taken over."""
    released = {"spec": {"holderIdentity": ""}}
    await users.clients["kcp"].merge_patch(lease.LEASES, lease.LEASE, released, KCP, field_manager="former")
    for _ in range(MAX_ATTEMPTS):  # not seconds: a machine that is paused has none
        kyma = await users.clients["kcp"].get(KYMAS, seeding.KYMA, KCP)
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
    sample = await skr.mapper.resource("template.example.com/v1alpha1", "Sample")
    await skr.delete(sample, "sample", SKR)
    await give_up(users)
    await choose(users, "fast", seeding.MODULE)
    await seeding.run_deployment(skr)
    await until_ready(users)
    await users.settled()
    await choose(users, "fast")


def workload(script: Any, layers: BlobServer, folder: Path) -> Workload:
    kcp, skr = ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (KCP, SKR))
    in_skr = [crds.crd_for(kind) for kind in crds.KINDS if kind.KIND in seeding.SKR_KINDS]

    return Workload(
        process=partial(process, folder, prepare=lambda manager: lease.setup(manager, manager.client)),
        script=partial(script, layers),
        clusters=("kcp", "skr"),
        initial={"kcp": (kcp, HELD, *crds.all_crds()), "skr": (skr, *in_skr)},
        ignored=frozenset({"catalog", "config", "observedGeneration", "ownerUid", names.OWNER_UID}),
        resync_seconds=SECONDS,
    )


@pytest.fixture
async def layers() -> AsyncIterator[BlobServer]:
    async with blob_server() as server:
        yield server


async def test_module_is_taken_over_the_same_whatever_happens(layers: BlobServer, tmp_path: Path) -> None:
    report = await check_under_faults(
        workload(take_over_and_upgrade, layers, tmp_path), max_places=PLACES, timeout_seconds=90
    )
    report.raise_findings()
    assert report.runs["KillAfterWrite"] == report.runs["CutAtAwait"] == PLACES
