"""Kymas, their catalog and their modules come to the same end whatever happens to the Lifecycle Manager on the way.

Its own controllers run against a simulated control plane and a simulated user cluster, and are killed after their
writes, started on views of the past, kept from hearing of changes, and cancelled at their awaits. The modules' layers
come from a server on loopback.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kube_runtime import EventRecorder
from kube_simulation.faults import Process, Users, Workload, check_under_faults
from kube_simulation.faults.faults import AGENT
from kyma_certs import Authorities, create_authority
from lifecycle_manager.app import LifecycleManager
from lifecycle_manager.catalog_sync import CATALOG_RECORD
from lifecycle_manager.clock import utc_now
from lifecycle_manager.resources import KYMAS, MODULE_RELEASE_METAS, MODULE_TEMPLATES, SECRETS
from lifecycle_manager.settings import Settings
from lifecycle_manager.skr_webhook import AuthorityRotation, AuthorityStore
from lifecycle_manager.wiring import Wiring
from lifecycle_manager_api import Kyma, as_document, crds, find, names
from tests import builders
from tests.registries import BlobServer, blob_server

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
AUTHORITY = create_authority("authority", lifetime=timedelta(days=1), now=utc_now())
PLACES = 6
LOOKS = 100  # where what they need was never heard of, users have to go on
ROUND = timedelta(milliseconds=100)
OURS = ("kyma", "catalog", "mandatory", "mandatory_retirement", "manifest", "skr_probe")
MODULES = (("api", "1.0.0"), ("api", "1.1.0"), ("nats", "1.0.0"), ("warden", "1.0.0"))


class Silence(EventRecorder):
    """Records nothing: the names of Events are never the same twice."""

    def record(self, *_: Any, **__: Any) -> None:
        return

    async def write_to(self, *_: Any, **__: Any) -> None:
        return


def settings() -> Settings:
    options: dict[str, Any] = {
        "kyma_requeue_success_interval": ROUND,
        "kyma_requeue_busy_interval": ROUND,
        "catalog_requeue_success_interval": ROUND,
        "manifest_requeue_success_interval": ROUND,
        "manifest_requeue_busy_interval": ROUND,
        "mandatory_module_requeue_success_interval": ROUND,
        "module_upgrade_rollout_max_delay": timedelta(0),
        "allow_insecure_kubeconfigs": True,
    }
    return Settings(**options)


async def process(layers: Path, life: Process) -> None:
    """Run the controllers of Kymas, catalogs and modules as the service wires them."""
    kcp = life.clients["kcp"]
    manager = LifecycleManager(settings(), kcp)
    manager.recorder = Silence(kcp, controller="test", instance="test")
    manager.connections.options = replace(manager.connections.options, user_agent=f"{AGENT}/1")
    store = AuthorityStore(kcp, utc_now)
    rotation = AuthorityRotation(store, manager.informers.kymas, utc_now, Authorities(AUTHORITY))
    controllers = manager.controllers(rotation, layers)
    try:
        async with asyncio.TaskGroup() as tasks:
            manager.informers.start_in(tasks)
            await manager.informers.wait_synced(60)
            wiring = Wiring(manager.informers, controllers)
            wiring.connect()
            wiring.begin(wiring.kyma_names())
            for name in OURS:
                controller = getattr(controllers, name)
                controller._reconcile = life.observed(controller._reconcile)
                tasks.create_task(controller.run())
    finally:
        await manager.connections.close()
        await manager.registries.close()


def parts_of(name: str, version: str) -> str:
    """Return the objects of a version: one that stays, and one that is its own."""
    parts = (("all", version), (version, version))
    return "---\n".join(
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}-{part}}}\ndata: {{of: {value}}}\n"
        for part, value in parts
    )


def module(layers: BlobServer, name: str, version: str) -> dict[str, Any]:
    """Return a version of a module, whose objects are in a layer."""
    template = builders.template(name, version, installs=True, enable_module_config=False, mandatory=name == "warden")
    document = bare(as_document(template))
    component = document["spec"]["descriptor"]["component"]
    component["repositoryContexts"][0]["baseUrl"] = f"http://{layers.host}/modules"
    digest = layers.hold(parts_of(name, version).encode())
    component["resources"][0]["access"]["localReference"] = digest
    return document


def bare(document: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in document["metadata"].items() if key in {"name", "labels"}}
    return {**document, "metadata": {**metadata, "namespace": KCP}}


async def register(layers: BlobServer, users: Users) -> None:
    """Put a catalog, a cluster's access Secret and its Kyma into the control plane."""
    kcp = users.clients["kcp"]
    for name, version in MODULES:
        await kcp.create(MODULE_TEMPLATES, module(layers, name, version), KCP, field_manager="user")
    for name in ("api", "nats"):
        release = bare(as_document(builders.release(name, regular="1.0.0")))
        await kcp.create(MODULE_RELEASE_METAS, release, KCP, field_manager="user")
    labels = {names.KYMA_NAME: "demo", names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    kubeconfig = {
        "current-context": "skr",
        "contexts": [{"name": "skr", "context": {"cluster": "skr", "user": "user"}}],
        "clusters": [{"name": "skr", "cluster": {"server": users.clients["skr"].server}}],
        "users": [{"name": "user", "user": {}}],
    }
    data = {"config": base64.b64encode(msgspec.json.encode(kubeconfig)).decode()}
    secret = {"metadata": {"name": "kubeconfig-demo", "labels": labels}, "data": data}
    kyma = {"metadata": {"name": "demo"}, "spec": {"channel": "regular", "modules": [{"name": "api", "managed": True}]}}
    await kcp.create(SECRETS, secret, KCP, field_manager="user")
    await kcp.create(KYMAS, kyma, KCP, field_manager="user")
    for _ in range(LOOKS):  # not seconds, of which a machine that stands still has none
        if await has_catalog(users):
            break
        await asyncio.sleep(0.1)
    await users.settled()


async def has_catalog(users: Users) -> bool:
    """Tell whether the Kyma says that its cluster has the catalog."""
    kyma = await users.clients["kcp"].get(KYMAS, "demo", KCP)
    condition = find(kyma.status.conditions, "ModuleCatalog")
    return condition is not None and condition.status == "True"


async def choose_and_upgrade(layers: BlobServer, users: Users) -> None:
    """Have a user choose another module, and a channel get a new version."""
    await register(layers, users)
    await choose(users, "api", "nats")
    release = bare(as_document(builders.release("api", regular="1.1.0")))
    await users.clients["kcp"].apply(MODULE_RELEASE_METAS, "api", release, KCP, field_manager="user")
    await choose(users, "api")


async def choose(users: Users, *modules: str) -> None:
    """Have users choose modules, whether the Kyma CR is there already or not."""
    chosen = {"channel": "regular", "modules": [{"name": name, "managed": True} for name in modules]}
    document = {"metadata": {"name": names.DEFAULT_KYMA_NAME}, "spec": chosen}
    await users.clients["skr"].apply(KYMAS, names.DEFAULT_KYMA_NAME, document, SKR, field_manager="user")
    await users.settled()


async def leave(layers: BlobServer, users: Users) -> None:
    """Have the Kyma deleted after all was there."""
    await register(layers, users)
    await users.clients["kcp"].delete(KYMAS, "demo", KCP)
    await users.settled()


def workload(
    script: Callable[[BlobServer, Users], Any], layers: BlobServer, folder: Path, *in_skr: dict[str, Any]
) -> Workload:
    kcp, skr = ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (KCP, SKR))
    return Workload(
        process=partial(process, folder),
        script=partial(script, layers),
        clusters=("kcp", "skr"),
        initial={"kcp": (kcp, *crds.all_crds()), "skr": (skr, *in_skr)},
        ignored=frozenset({CATALOG_RECORD, "config", "observedGeneration"}),
        resync_seconds=ROUND.total_seconds(),
    )


@pytest.fixture
async def layers() -> AsyncIterator[BlobServer]:
    """A registry of the modules' layers."""
    async with blob_server() as server:
        yield server


async def test_modules_are_chosen_and_upgraded_the_same_whatever_happens(layers: BlobServer, tmp_path: Path) -> None:
    report = await check_under_faults(
        workload(choose_and_upgrade, layers, tmp_path, crds.crd_for(Kyma)), max_places=PLACES, patience_seconds=90
    )
    report.raise_findings()
    assert report.runs["KillAfterWrite"] == report.runs["CutAtAwait"] == PLACES


async def test_kyma_leaves_nothing_behind_whatever_happens(layers: BlobServer, tmp_path: Path) -> None:
    report = await check_under_faults(workload(leave, layers, tmp_path), max_places=PLACES, patience_seconds=90)
    report.raise_findings()
