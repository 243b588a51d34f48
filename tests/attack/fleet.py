"""A whole Lifecycle Manager, with a cluster whose API server is hostile among others whose users make changes.

Whatever that server does, the others' changes come into force, the Lifecycle Manager writes nothing in KCP but its own
objects, and once the server tells the truth again its Kyma can be deleted, and nothing is left behind in the cluster.
"""

import asyncio
import base64
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from benchmarks.processes.fleet import LifecycleManagerProcess, run_lifecycle_manager
from kube_runtime import NotFound, dump_yaml
from kyma_local.ports import free_port
from kyma_local.processes import tail
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS, MODULE_RELEASE_METAS, MODULE_TEMPLATES, SECRETS
from lifecycle_manager_api import State, as_document, names
from tests import builders
from tests.attack.running import HostileProcess, hostile_server
from tests.registries import BlobServer, blob_server
from tests.waiting import eventually
from tests.world import KCP, World, open_world

HONEST = ("honest-1", "honest-2")
MODULES = ("api", "nats")
ATTACK_SECONDS = 12.0
CHANGE_SECONDS = 45.0
"""How long the change of an honest user may take: it is found by polling, every two seconds, on any machine."""
MAX_MEMORY_MB = 400.0
OPTIONS = (
    "--kyma-requeue-success-interval=2s",
    "--kyma-requeue-busy-interval=0.5s",
    "--manifest-requeue-success-interval=3s",
    "--failure-max-delay=1s",
    "--skr-unreachable-grace=1s",
)
OWN = frozenset(
    {"kymas", "manifests", "moduleconfigs", "syncresources", "leases", "events", "secrets", "modulereleasemetas"}
    | {"moduletemplates", "customresourcedefinitions", "validatingwebhookconfigurations", "selfsubjectaccessreviews"}
    | {"validatingadmissionpolicies", "validatingadmissionpolicybindings", "moduleconditions", "watchers", "configmaps"}
)
"""The kinds that a Lifecycle Manager writes in KCP."""


class Disturbed(Exception):
    """What a hostile cluster did had an effect outside of it."""


@dataclass(eq=False)
class AttackedFleet:
    """The clusters and the Lifecycle Manager. `attack` may be repeated, each time with another hostile cluster."""

    world: World
    hostile: HostileProcess
    manager: LifecycleManagerProcess

    async def attack(self, sample: bytes) -> None:
        name = sample.decode()
        marked = self.world.simulation.records.count
        await self._register(name, f"http://{self.hostile.host}/clusters/{name}")
        users = asyncio.create_task(self._users(random.Random(name)))  # noqa: S311 - repeatable, and no secret
        await asyncio.wait({users}, timeout=ATTACK_SECONDS)
        users.cancel()
        await asyncio.gather(users, return_exceptions=True)
        if not users.cancelled():
            users.result()
        await self._point(name, self.world.cluster(name).server)
        await self.world.kcp.delete(KYMAS, name, KCP)
        await eventually(lambda: self._is_gone(name), within=120, every=0.2, what="the Kyma of the cluster is gone")
        self._judge(name, marked)
        self.world.simulation.remove(name)

    async def _register(self, name: str, server: str) -> None:
        labels = {names.KYMA_NAME: name, names.MANAGED_BY: names.LIFECYCLE_MANAGER}
        secret = {"metadata": {"name": f"kubeconfig-{name}", "labels": labels}, "data": self._access(name, server)}
        await self.world.kcp.create(SECRETS, secret, KCP, field_manager="broker")
        spec = {"channel": "regular", "modules": [{"name": "api", "managed": True}]}
        await self.world.kcp.create(KYMAS, {"metadata": {"name": name}, "spec": spec}, KCP, field_manager="broker")

    async def _point(self, name: str, server: str) -> None:
        """Have the access Secret lead to another server of the same cluster."""
        await self.world.kcp.merge_patch(SECRETS, f"kubeconfig-{name}", {"data": self._access(name, server)}, KCP)

    def _access(self, name: str, server: str) -> dict[str, str]:
        config: dict[str, Any] = {**self.world.cluster(name).kubeconfig}
        config["clusters"] = [{**each, "cluster": {"server": server}} for each in config["clusters"]]
        return {"config": base64.b64encode(msgspec.json.encode(config)).decode()}

    async def _users(self, draw: random.Random) -> None:
        """Let users of honest clusters take a module and give it back, over and over."""
        while True:
            name = draw.choice(HONEST)
            for chosen in (MODULES, MODULES[:1]):
                await self.world.choose(*chosen, name=name)
                wanted = {f"{name}-{each}" for each in chosen}
                await eventually(
                    partial(self._has, name, wanted),
                    within=CHANGE_SECONDS,
                    every=0.1,
                    what=f"the change of {name} is in force",
                )

    async def _has(self, name: str, wanted: set[str]) -> bool:
        found = {each for each in await self.world.manifests() if each.startswith(f"{name}-")}
        return found == wanted

    async def _is_gone(self, name: str) -> bool:
        try:
            await self.world.kcp.get(KYMAS, name, KCP)
        except NotFound:
            return True
        return False

    def _judge(self, name: str, marked: int) -> None:
        """Raise Disturbed for what the attack has left behind."""
        log = self.manager.child.log.read_text(errors="replace")
        if "Traceback" in log:
            raise Disturbed(f"the Lifecycle Manager logs a traceback:\n{tail(self.manager.child.log, 60)}")
        if self.manager.child.returncode is not None:
            raise Disturbed("the Lifecycle Manager has ended")
        if self.hostile.bait:
            raise Disturbed("a redirect was followed")
        if (memory := self.manager.peak_memory()) > MAX_MEMORY_MB:
            raise Disturbed(f"the Lifecycle Manager took {memory:.0f} MB")
        written = self.world.simulation.records.those(
            lambda each: each.cluster == "kcp" and each.is_write and each.resource.partition(".")[0] not in OWN,
            since=marked,
        )
        if written:
            raise Disturbed(f"the Lifecycle Manager wrote in KCP: {written[0]}")
        left = [each["metadata"]["name"] for each in self.world.cluster(name).objects() if _is_of_a_module(each)]
        if left:
            raise Disturbed(f"objects are forgotten in the cluster: {left}")


@asynccontextmanager
async def attacked_fleet() -> AsyncIterator[AttackedFleet]:
    """Run the clusters and the Lifecycle Manager until the honest ones have what they need."""
    async with open_world() as world, blob_server() as layers, hostile_server(world.simulation.address) as hostile:
        await _offer(world, layers)
        with TemporaryDirectory(prefix="attack-") as text:
            folder = Path(text)
            kubeconfig = folder / "kcp.kubeconfig"
            kubeconfig.write_text(dump_yaml(world.cluster("kcp").kubeconfig))
            async with run_lifecycle_manager(kubeconfig, free_port(), folder, more=OPTIONS) as manager:
                fleet = AttackedFleet(world, hostile, manager)
                for name in HONEST:
                    await world.register(name, "api")
                    await eventually(partial(_is_ready, world, name), within=120, what=f"{name} has its module")
                yield fleet


async def _offer(world: World, layers: BlobServer) -> None:
    for name in MODULES:
        document = as_document(builders.template(name, "1.0.0", installs=True, enable_module_config=False, data=None))
        component = document["spec"]["descriptor"]["component"]
        component["repositoryContexts"][0]["baseUrl"] = f"http://{layers.host}/modules"
        parts = [
            dump_yaml({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-{number}"}})
            for number in range(3)
        ]
        component["resources"][0]["access"]["localReference"] = layers.hold("---\n".join(parts).encode())
        await world.kcp.create(MODULE_TEMPLATES, _bare(document), KCP, field_manager="team")
        release = _bare(as_document(builders.release(name, regular="1.0.0")))
        await world.kcp.create(MODULE_RELEASE_METAS, release, KCP, field_manager="team")


def _bare(document: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in document["metadata"].items() if key in {"name", "labels"}}
    return {**document, "metadata": {**metadata, "namespace": KCP}}


async def _is_ready(world: World, name: str) -> bool:
    """Tell whether the cluster has its module; nothing runs the Watcher here, of which the Kyma's state tells."""
    try:
        return (await world.kcp.get(MANIFESTS, f"{name}-api", KCP)).status.state is State.READY
    except NotFound:
        return False


def _is_of_a_module(document: dict[str, Any]) -> bool:
    return document["kind"] == "ConfigMap" and str(document["metadata"]["name"]).startswith(MODULES)
