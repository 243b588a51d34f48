"""A simulated control plane with thousands of simulated user clusters as the former version leaves them.

The objects are those of `tests/integration/takeover`, with their field managers, for several modules: written once, to
one cluster, and copied to the others. Controlled by lines of JSON, as `simulated_fleet`. Run by `benchmarks.takeover`.
"""

import argparse
import asyncio
import base64
import gc
import itertools
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.processes.simulated_fleet import MERGE, write_line
from kube_runtime import Client, ClientOptions, KubeconfigPolicy
from kube_simulation import Answer, ApiRequest, Rule, SimulatedCluster, Simulation, serve_simulation
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager_api import crds, names
from tests.integration.takeover import seeding

APPLIED_BY_OURS = names.LIFECYCLE_MANAGER
WATCHER_MANAGER = "lifecycle-manager-skr-webhook"
MODULES = ("eventing", "logging", "metering", "networking", "storage")
PLACEHOLDER = "__kubeconfig__"
Document = dict[str, Any]
ObjectName = tuple[str, str, str, str]
"""Cluster, plural name of the kind with its group, namespace and name."""


def former_name(number: int) -> str:
    """Return the name of a Kyma, of its runtime, and of its cluster; the first is that of the data files."""
    return seeding.KYMA if number == 0 else f"{number:08x}{seeding.KYMA[8:]}"


def of_module(text: str, module: str) -> str:
    """Return a text about the one module of the data files as one about another module."""
    return text.replace(seeding.MODULE, module).replace("template.example.com", f"{module}.example.com")


class DeploymentController(Rule):
    """Reports a Deployment as running once it is applied, as the controllers of a cluster do."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster

    async def around(self, request: ApiRequest, proceed: Callable[[], Awaitable[Answer]]) -> Answer:
        answer = await proceed()
        is_deployment = request.kind is not None and request.kind.plural == "deployments"
        if is_deployment and request.verb == "apply" and not request.subresource and answer.code < 300:
            status = seeding.READY_STATUS | {"observedGeneration": answer.document()["metadata"]["generation"]}
            self.cluster.answer_to("PATCH", f"{request.path}/status", {"status": status}, MERGE)
        return answer


class WriteCounter(Rule):
    """Counts the writes to each object of a module, and notes which clusters have this version's Watcher."""

    def __init__(self) -> None:
        self.uids: dict[ObjectName, str] = {}
        self.writes: dict[ObjectName, Counter[str]] = {}
        self.watchers: set[str] = set()
        self.webhooks: set[str] = set()

    async def around(self, request: ApiRequest, proceed: Callable[[], Awaitable[Answer]]) -> Answer:
        answer = await proceed()
        if request.is_write and request.kind is not None and answer.code < 300 and not request.subresource:
            kind = f"{request.kind.plural}.{request.kind.group}"
            named = (request.cluster, kind, request.namespace, request.name)
            if named in self.uids:
                self.writes.setdefault(named, Counter())[request.verb] += 1
            elif request.manager == WATCHER_MANAGER and request.kind.plural == "deployments":
                self.watchers.add(request.cluster)
            elif request.manager == WATCHER_MANAGER and request.kind.plural == "validatingwebhookconfigurations":
                self.webhooks.add(request.cluster)
        return answer


class FormerFleet:
    """The clusters, and the commands on them."""

    def __init__(self, simulation: Simulation, kymas: int, layers: Document) -> None:
        self.simulation = simulation
        self.kcp = simulation.cluster("kcp")
        self.skrs = [simulation.cluster(former_name(number)) for number in range(kymas)]
        self.layers = layers
        self.counter = WriteCounter()

    def execute(self, command: Document) -> Document:
        """Execute a command, and return the answer."""
        do: Callable[..., Document] = getattr(self, f"_{command.pop('do')}")
        return do(**command)

    async def leave_behind(self) -> None:
        """Write what the former version leaves behind in the control plane and in each cluster."""
        await self._set_up_control_plane()
        model = self.simulation.cluster("model")
        model.restore(crds.crd_for(kind) for kind in crds.KINDS if kind.KIND in seeding.SKR_KINDS)
        present = {_reference(each) for each in model.objects()}
        async with await _client(model) as client:
            await self._fill_cluster(client)
        written = [each for each in model.objects() if _reference(each) not in present]
        definitions = [each for each in model.objects() if each["kind"] == "CustomResourceDefinition"]
        objects = msgspec.json.encode([each for each in written if each["kind"] != "CustomResourceDefinition"]).decode()
        for number, skr in enumerate(self.skrs):
            skr.restore(definitions)
            skr.restore(json.loads(objects.replace(seeding.KYMA, former_name(number))))
            skr.add_rule(self.counter)
            skr.add_rule(DeploymentController(skr))
            for each in skr.objects():
                if _is_of_a_module(each):
                    self.counter.uids[_object_name(skr.name, each)] = each["metadata"]["uid"]
        self.simulation.remove("model")

    async def _set_up_control_plane(self) -> None:
        for name in (names.KCP_NAMESPACE, "istio-system"):
            self.kcp.answer_to("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        self.kcp.restore(crds.all_crds())
        async with await _client(self.kcp) as client:
            seed = seeding.Seed(registry=self.layers["registry"], kubeconfig=PLACEHOLDER)
            await seeding.write(client, "shared", seed)
            for module in MODULES:
                seed = replace(seed, layers=tuple(self.layers["digests"][module]))
                for each in _of_module(seeding.writes_of("catalog", seed), module):
                    await seeding.carry_out(client, each)
            before = {_reference(each) for each in self.kcp.objects()}
            await self._write_registration(client, seed)
        written = [each for each in self.kcp.objects() if _reference(each) not in before]
        for each in written:
            self.kcp.answer_to("DELETE", _path(each))
            self.kcp.answer_to("PATCH", _path(each), {"metadata": {"finalizers": []}}, MERGE)
        model, uids = msgspec.json.encode(written).decode(), [each["metadata"]["uid"] for each in written]
        numbers = itertools.count(1)
        for number, skr in enumerate(self.skrs):
            text = model.replace(seeding.KYMA, former_name(number))
            for uid in uids:
                text = text.replace(uid, f"00000000-0000-0000-0000-{next(numbers):012}")
            config = base64.b64encode(json.dumps(skr.kubeconfig).encode()).decode()
            self.kcp.restore(json.loads(text.replace(seeding.encoded(PLACEHOLDER.encode()), config)))

    async def _write_registration(self, client: Client, seed: seeding.Seed) -> None:
        """Write the Kyma, its access Secret and its Manifests."""
        kyma, *others = seeding.writes_of("control_plane", seed)
        await seeding.carry_out(client, _with_all_modules(kyma))
        uid = (await client.get(KYMAS, seeding.KYMA, names.KCP_NAMESPACE)).metadata.uid
        for position, each in enumerate(others, start=1):
            if each["object"]["kind"] != "Manifest":
                await seeding.carry_out(client, _with_all_modules(each))
                continue
            for module in MODULES:
                seed = replace(seed, kyma_uid=uid, layers=tuple(self.layers["digests"][module]))
                written = seeding.writes_of("control_plane", seed)[position]
                await seeding.carry_out(client, next(_of_module([written], module)))

    async def _fill_cluster(self, client: Client) -> None:
        """Write what the former version leaves in a cluster: modules, Kyma CR, catalog and Watcher."""
        first, *others = seeding.writes_of("cluster", seeding.Seed())
        await seeding.carry_out(client, first)
        for module in MODULES:
            for document in _of_module(seeding.module_objects(1), module):
                await seeding.apply(client, document, seeding.APPLIER)
            deployments = f"/apis/apps/v1/namespaces/{names.SKR_NAMESPACE}/deployments/{module}/status"
            self.simulation.cluster("model").answer_to("PATCH", deployments, {"status": seeding.READY_STATUS}, MERGE)
        written: set[bytes] = set()
        for each in others:
            for module in MODULES:
                document = next(_of_module([_with_all_modules(each)], module))
                if (text := msgspec.json.encode(document)) not in written:  # not all of them are about a module
                    written.add(text)
                    await seeding.carry_out(client, document)
        await seeding.write(client, "watcher", seeding.Seed())

    def _progress(self) -> Document:
        """Return how far the takeover is."""
        counter = self.counter
        wanted = [each for each in counter.uids if not each[1].startswith("samples.")]
        applied = sum(counter.writes.get(each, Counter())["apply"] > 0 for each in wanted)
        return {
            "done": applied,
            "of": len(wanted),
            "watchers": [number for number, skr in enumerate(self.skrs) if skr.name in counter.watchers],
            "webhooks": len(counter.webhooks),
        }

    def _verdict(self) -> Document:
        """Return what has become of the objects of modules."""
        counter = self.counter
        verbs = Counter[str]()
        for each in counter.writes.values():
            verbs.update(each)
        found = {_object_name(skr.name, each): each for skr in self.skrs for each in skr.objects()}
        same = sum(named in found and found[named]["metadata"]["uid"] == uid for named, uid in counter.uids.items())
        ours = sum(_appliers(found[named]) == {APPLIED_BY_OURS} for named in counter.uids if named in found)
        return {
            "objects": len(counter.uids),
            "replaced": len(counter.uids) - same,
            "taken_over": ours,
            "max_applies": max((each["apply"] for each in counter.writes.values()), default=0),
            "max_patches": max((each["patch"] for each in counter.writes.values()), default=0),
            "deletions": verbs["delete"],
            "writes": dict(verbs),
        }


async def _client(cluster: SimulatedCluster) -> Client:
    options, policy = ClientOptions(qps=0), KubeconfigPolicy.permissive()
    return await Client.from_kubeconfig(cluster.kubeconfig, options=options, policy=policy)


def _of_module(documents: Any, module: str) -> Iterator[Document]:
    for document in documents:
        yield json.loads(of_module(json.dumps(document), module))


def _with_all_modules(written: Document) -> Document:
    """Return a write of a Kyma with all modules in its lists."""
    if written["object"]["kind"] != "Kyma":
        return written
    document: Document = json.loads(json.dumps(written))
    for part in ("spec", "status"):
        listed = document["object"].get(part, {}).get("modules")
        if listed:
            document["object"][part]["modules"] = [next(_of_module(listed, module)) for module in MODULES]
    return document


def _is_of_a_module(live: Document) -> bool:
    return seeding.APPLIER in _appliers(live) or live["kind"] == "Sample"


def _appliers(live: Document) -> set[str]:
    managed = live["metadata"].get("managedFields") or ()
    return {each["manager"] for each in managed if each["operation"] == "Apply"}


def _reference(live: Document) -> tuple[str, str, str, str]:
    metadata = live["metadata"]
    return live["apiVersion"], live["kind"], metadata.get("namespace", ""), metadata["name"]


def _object_name(cluster: str, live: Document) -> ObjectName:
    metadata, group = live["metadata"], live["apiVersion"].rpartition("/")[0]
    return cluster, f"{_plural(live['kind'])}.{group}", metadata.get("namespace", ""), metadata["name"]


def _path(live: Document) -> str:
    root = f"/apis/{live['apiVersion']}" if "/" in live["apiVersion"] else f"/api/{live['apiVersion']}"
    metadata = live["metadata"]
    return f"{root}/namespaces/{metadata['namespace']}/{_plural(live['kind'])}/{metadata['name']}"


def _plural(kind: str) -> str:
    return f"{kind.lower()}s"


async def serve(arguments: argparse.Namespace) -> None:
    """Serve the clusters and execute commands until the input ends."""
    async with serve_simulation(history=20_000, records=0) as simulation:
        fleet = FormerFleet(simulation, arguments.kymas, msgspec.json.decode(arguments.layers.read_bytes()))
        await fleet.leave_behind()
        gc.disable()  # it takes seconds here, and would count as a pause of the measured process
        issued = seeding.certificates()
        watcher = {
            "certificate": issued.leaf.certificate_pem.decode(),
            "key": issued.leaf.key_pem.decode(),
            "trusted": issued.bundle.decode(),
        }
        write_line({"kubeconfig": fleet.kcp.kubeconfig, "kubeconfigs": [], "watcher": watcher})
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            write_line(fleet.execute(json.loads(line)))


def main() -> None:
    """Read the command line and serve."""
    import uvloop  # noqa: PLC0415 - needed by the program only

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kymas", type=int, default=1_000)
    parser.add_argument("--modules", type=int, default=len(MODULES), choices=[len(MODULES)])
    parser.add_argument(
        "--layers", type=Path, required=True, help="file with the registry and the digests of the layers"
    )
    uvloop.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
