"""The real clusters of a day: API servers with an etcd, real Watchers, a module's operator, and a person who edits."""

import asyncio
import json
import random
import shutil
import time
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.day.documents import modules_of
from benchmarks.day.population import KCP
from benchmarks.day.stage import OPTIONS, Stage
from benchmarks.processes.fleet_documents import Document
from kube_runtime import Client, KindUnknown, KubeError, NotFound, Resource
from kyma_demo.playground.kubelet import WatcherKubelet
from kyma_local.clusters import LocalClusters
from kyma_local.waiting import eventually
from lifecycle_manager.contract.resources import SECRETS
from lifecycle_manager_api import names

THINGS: Resource[dict[str, Any]] = Resource.dynamic("example.com", "v1", "Thing", "things", namespaced=True)
CONFIG_MAPS: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "ConfigMap", "configmaps", namespaced=True)
CHANGES = "changes-real.jsonl"
EDIT_SECONDS = 15.0
OPERATOR_SECONDS = 0.5
LATE_SECONDS = 120.0


@dataclass(eq=False)
class RealClusters:
    """The clients and kubeconfigs of the real clusters, by the name of their Kyma.

    `pending` are changes of people that are not in force, `late` the ones that were not within a time, and `tokens` how
    many different accesses Lifecycle Manager has had.
    """

    stage: Stage
    clients: dict[str, Client] = field(default_factory=dict)
    kubeconfigs: dict[str, Path] = field(default_factory=dict)
    pending: dict[str, float] = field(default_factory=dict)
    late: list[str] = field(default_factory=list)
    tokens: dict[str, set[str]] = field(default_factory=dict)

    async def edit(self) -> None:
        """Have a person edit the module's configuration in one cluster after the other, until cancelled."""
        number, chance = 0, random.Random(0)  # noqa: S311 - the same day each time
        while self.clients:
            for name, client in self.clients.items():
                await asyncio.sleep(EDIT_SECONDS * chance.uniform(0.5, 1.5))
                number += 1
                await self._edit_one(name, client, f"by a person, {number} of {name}.")

    async def _edit_one(self, name: str, client: Client, text: str) -> None:
        await _patch(self.kubeconfigs[name], client, {"spec": {"text": text}})
        at = self.pending[name] = time.time()
        try:
            async with asyncio.timeout(LATE_SECONDS):
                await eventually(lambda: _is_in_force(client, text), every=0.02)
        except TimeoutError:
            self.late.append(text)
            return  # it stays among the pending ones, until a later one is in force
        change = {"cluster": name, "what": "kubectl edit", "edited": at, "in_force": time.time()}
        del self.pending[name]
        with (self.stage.folder / CHANGES).open("a") as file:
            file.write(msgspec.json.encode(change).decode() + "\n")

    async def follow_tokens(self) -> None:
        """Note each access that Lifecycle Manager has had, until cancelled: it renews the token in it."""
        while self.clients:
            for name in self.clients:
                try:
                    secret = await self.stage.kcp.get(SECRETS, f"kubeconfig-{name}", KCP)
                except KubeError:  # the control plane is restarted
                    continue
                self.tokens.setdefault(name, set()).add(secret.data["config"])
            await asyncio.sleep(30)


@asynccontextmanager
async def run_real_clusters(stage: Stage, count: int) -> AsyncIterator[RealClusters]:
    """Start real clusters with an etcd of their own, and let them join by `klm join`, with tokens of ten minutes."""
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        real, running = RealClusters(stage), list[asyncio.Task[None]]()
        if count:
            await _add(real, count, stack, running, tasks)
        try:
            yield real
        finally:
            for task in running:
                task.cancel()


async def _add(
    real: RealClusters, count: int, stack: AsyncExitStack, running: list["asyncio.Task[None]"], tasks: asyncio.TaskGroup
) -> None:
    stage = real.stage
    theirs = await stack.enter_async_context(
        LocalClusters.start(skrs=count - 1, directory=stage.folder / "real", workloads=True)
    )
    for number, cluster in enumerate((theirs.kcp, *theirs.skrs)):
        name = f"real-{number}"
        client = await stack.enter_async_context(
            await Client.from_environment(cluster.admin_kubeconfig, options=OPTIONS)
        )
        routes = cluster.directory / "routes"
        kubelet = WatcherKubelet(name, client, routes, stage.folder / "real", stage.replicas.event_port)
        running += [tasks.create_task(kubelet.run()), tasks.create_task(_operate(client))]
        modules = (f"--module={each}" for each in modules_of(number, stage.modules))
        joined = await stage.klm(
            "join", name, f"--kubeconfig={cluster.admin_kubeconfig}", "--any-module", "--token-lifetime=10m", *modules
        )
        if joined.code:
            raise RuntimeError(f"klm join {name}: {joined.text}{joined.errors}")
        real.clients[name], real.kubeconfigs[name] = client, cluster.admin_kubeconfig


async def _operate(client: Client) -> None:
    """Report the default Thing as ready, as the operator of its module does."""
    while True:
        try:
            thing = await client.get(THINGS, "default", names.SKR_NAMESPACE)
            if thing.get("status", {}).get("state") != "Ready":
                ready = {"status": {"state": "Ready"}}
                await client.merge_patch(THINGS, "default", ready, names.SKR_NAMESPACE, field_manager="operator")
        except (NotFound, KindUnknown):
            pass  # it is not installed yet, or not any more
        await asyncio.sleep(OPERATOR_SECONDS)


async def _patch(kubeconfig: Path, client: Client, patch: Document) -> None:
    """Change the default Thing as a person does: by kubectl, where there is one."""
    if (kubectl := shutil.which("kubectl")) is None:
        await client.merge_patch(THINGS, "default", patch, names.SKR_NAMESPACE, field_manager="kubectl-edit")
        return
    where = (f"--kubeconfig={kubeconfig}", f"--namespace={names.SKR_NAMESPACE}", "--field-manager=kubectl-edit")
    command = (kubectl, *where, "patch", "things.example.com", "default", "--type=merge", f"-p={json.dumps(patch)}")
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=STDOUT)
    text, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"kubectl: {text.decode()}")


async def _is_in_force(client: Client, text: str) -> bool:
    try:
        found = await client.get(CONFIG_MAPS, "thing-default", names.SKR_NAMESPACE)
    except NotFound:
        return False
    return bool(found["data"]["text"] == text)
