"""Kymas, their catalog and their modules come to the same end whatever happens to Lifecycle Manager on the way.

The controllers run on a Manager against a simulated KCP and a simulated SKR, and are killed after their writes, started
on views of the past, kept from seeing changes, and cancelled at their awaits. The modules' layers come from a server on
loopback.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
import pytest

from kube_runtime import Causes, ClientOptions, Controller, KubeconfigPolicy, Manager, ObjectKey, Result
from kyma_oci import Registries
from lifecycle_manager import catalog_sync, kyma, mandatory_modules, module_installation
from lifecycle_manager.catalog_sync import CatalogSettings
from lifecycle_manager.contract.changes import kyma_changed
from lifecycle_manager.contract.conditions import REMOVED, WEBHOOK, modules_removed, write_condition
from lifecycle_manager.contract.resources import (
    DATED_RELEASE_METAS,
    KYMAS,
    MODULE_RELEASE_METAS,
    MODULE_TEMPLATES,
    SECRETS,
)
from lifecycle_manager.kyma import KymaSettings
from lifecycle_manager.kyma.writes import NAMESPACE
from lifecycle_manager.mandatory_modules import MandatorySettings
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.module_installation import Logins, ManifestSettings
from lifecycle_manager.module_sources.store import ObjectStore
from lifecycle_manager.options.kymas import RolloutSettings
from lifecycle_manager.skr import controller as skr
from lifecycle_manager.skr.access import ACCESS_SECRETS, OUR_SECRETS, SkrAccessError
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager_api import ConditionStatus, Kyma, as_document, crds, find, names
from tests import builders
from tests.faults import Process, Users, Workload, check_under_faults
from tests.faults.faults import AGENT
from tests.kubeconfigs import kubeconfig
from tests.observed_manager import ObservedManager
from tests.registries import BlobServer, blob_server

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
PLACES = 4
MAX_ATTEMPTS = 100  # where what they need was never seen, users have to go on
SECONDS = 0.1
MODULES = (("api", "1.0.0"), ("api", "1.1.0"), ("nats", "1.0.0"), ("warden", "1.0.0"))
OPTIONS = ClientOptions(qps=0, circuit=True, user_agent=f"{AGENT}/1")


async def unavailable(link: str) -> str:
    """Stand in for downloads, which these modules don't need."""
    raise AssertionError(f"nothing is downloaded from {link}")


async def process(life: Process, prepare: Callable[[Manager], None] = lambda _: None) -> None:
    """Run the controllers of Kymas, catalogs and modules on a Manager. `prepare` declares more of it before."""
    manager = ObservedManager(life)
    prepare(manager)
    secrets = manager.informer(SECRETS, label_selector=OUR_SECRETS, indexes=(ACCESS_SECRETS,))
    connections = Connections(secrets, OPTIONS, KubeconfigPolicy.permissive())
    offers = Offers(manager.informer(MODULE_TEMPLATES), manager.informer(DATED_RELEASE_METAS))
    registries = Registries()
    store = ObjectStore(registries, unavailable)
    skr.setup(manager, connections)
    rollout = RolloutSettings(max_delay=timedelta(0))
    kyma.setup(
        manager,
        connections,
        offers=offers,
        settings=KymaSettings(interval_seconds=SECONDS, deletion_interval_seconds=SECONDS, rollout=rollout),
    )
    catalog_sync.setup(
        manager, connections, offers, CatalogSettings(interval_seconds=SECONDS, removal_interval_seconds=SECONDS)
    )
    mandatory_modules.setup(manager, offers, MandatorySettings(interval_seconds=SECONDS), rollout)
    settings = ManifestSettings(interval_seconds=SECONDS, busy_seconds=SECONDS)
    module_installation.setup(manager, connections, offers, store, Logins(manager.client), settings)
    report_watchers_as_removed(manager)
    try:
        await manager.run(asyncio.Event())
    finally:
        await connections.close()
        await registries.close()


def report_watchers_as_removed(manager: Manager) -> None:
    """Report the Watcher of each Kyma that is being deleted as removed: no Watchers are installed here."""
    kymas = manager.informer(KYMAS)
    controller: Controller[ObjectKey, None] = manager.controller("watcher")
    removed: tuple[ConditionStatus, str, str] = ("False", REMOVED, "")

    async def reconcile(key: ObjectKey, _causes: Causes, _state: None) -> Result:
        kyma = kymas.get(key)
        if kyma is not None and modules_removed(kyma):
            now = manager.clock.now()
            written = await write_condition(manager.client, kyma, WEBHOOK, removed, now=now, field_manager="watcher")
            if written is not None:
                kymas.wrote(written)
        return Result()

    controller.watches(kymas, when=kyma_changed(modules_removed))
    controller.reconciles(reconcile)


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
    """Create a catalog, an access Secret and its Kyma in KCP."""
    kcp = users.clients["kcp"]
    for name, version in MODULES:
        await kcp.create(MODULE_TEMPLATES, module(layers, name, version), KCP, field_manager="user")
    for name in ("api", "nats"):
        release = bare(as_document(builders.release(name, regular="1.0.0")))
        await kcp.create(MODULE_RELEASE_METAS, release, KCP, field_manager="user")
    labels = {names.KYMA_NAME: "demo", names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    document = kubeconfig({}, server=users.clients["skr"].server)
    data = {"config": base64.b64encode(msgspec.json.encode(document)).decode()}
    secret = {"metadata": {"name": "kubeconfig-demo", "labels": labels}, "data": data}
    kyma = {"metadata": {"name": "demo"}, "spec": {"channel": "regular", "modules": [{"name": "api", "managed": True}]}}
    await kcp.create(SECRETS, secret, KCP, field_manager="user")
    await kcp.create(KYMAS, kyma, KCP, field_manager="user")
    for _ in range(MAX_ATTEMPTS):  # not seconds: a machine that is paused has none
        if await has_catalog(users):
            break
        await asyncio.sleep(0.05)
    await users.settled()


async def has_catalog(users: Users) -> bool:
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


def workload(script: Callable[[BlobServer, Users], Any], layers: BlobServer, *in_skr: dict[str, Any]) -> Workload:
    kcp = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KCP}}
    return Workload(
        process=process,
        script=partial(script, layers),
        clusters=("kcp", "skr"),
        initial={"kcp": (kcp, *crds.all_crds()), "skr": (NAMESPACE, *in_skr)},
        ignored=frozenset({"catalog", "config", "observedGeneration"}),
        foreseen=(SkrAccessError,),
        resync_seconds=SECONDS,
    )


@pytest.fixture
async def layers() -> AsyncIterator[BlobServer]:
    async with blob_server() as server:
        yield server


async def test_modules_are_chosen_and_upgraded_the_same_whatever_happens(layers: BlobServer) -> None:
    report = await check_under_faults(
        workload(choose_and_upgrade, layers, crds.crd_for(Kyma)), max_places=PLACES, timeout_seconds=90
    )
    report.raise_findings()
    assert report.runs["KillAfterWrite"] == report.runs["CutAtAwait"] == PLACES


async def test_deleted_kyma_leaves_no_objects_whatever_happens(layers: BlobServer) -> None:
    report = await check_under_faults(workload(leave, layers), max_places=PLACES, timeout_seconds=90)
    report.raise_findings()
