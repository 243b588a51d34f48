"""A simulated control plane with thousands of simulated user clusters as the former version leaves them.

The objects are those that the Lifecycle Manager in Go was recorded to write for one Kyma (`tests/takeover_from_go`),
with their field managers, for each cluster under another name. Controlled by lines of JSON, as `simulated_fleet`. Run
by `benchmarks.takeover`.
"""

import argparse
import gc
import itertools
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from benchmarks.processes.fleet_documents import API, MERGE
from benchmarks.processes.output import obey, write_line
from kube_simulation import Answer, ApiRequest, Rule, SimulatedCluster, Simulation, serve_simulation
from kyma_certs import KeyPair
from kyma_takeover import marks
from lifecycle_manager_api import crds, names
from tests.takeover_from_go import modules
from tests.takeover_from_go.played import status_of
from tests.takeover_from_go.recordings import REGISTRY, Document
from tests.takeover_from_go.restored import Certificates, filled, foreign_crds
from tests.takeover_from_go.starts import KYMA, start

APPLIED_BY_OURS = names.LIFECYCLE_MANAGER
WATCHER_MANAGER = "lifecycle-manager-skr-webhook"
MODULES = tuple(each.name for each in modules.INSTALLED)
KYMA_CR = f"{API}/{names.SKR_NAMESPACE}/kymas/{names.DEFAULT_KYMA_NAME}"
ObjectName = tuple[str, str, str, str]
"""Cluster, plural name of the kind with its group, namespace and name."""


def former_name(number: int) -> str:
    """Return the name of a Kyma, of its runtime, and of its cluster; the first is the recorded one."""
    return KYMA if number == 0 else f"{number:08x}{KYMA[8:]}"


class DeploymentController(Rule):
    """Reports a Deployment as running once it is applied, as the controllers of a cluster do."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster

    async def around(self, request: ApiRequest, proceed: Callable[[], Awaitable[Answer]]) -> Answer:
        answer = await proceed()
        is_deployment = request.kind is not None and request.kind.plural == "deployments"
        if is_deployment and request.verb == "apply" and not request.subresource and answer.code < 300:
            status = {"status": status_of(answer.document())}
            self.cluster.answer_to("PATCH", f"{request.path}/status", status, MERGE)
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


class Arrivals(Rule):
    """Notes when users' changes arrive in the control plane: in the Manifest of the module."""

    def __init__(self) -> None:
        self.made: dict[tuple[str, str], float] = {}
        self.seconds: list[float] = []

    async def around(self, request: ApiRequest, proceed: Callable[[], Awaitable[Answer]]) -> Answer:
        answer = await proceed()
        is_manifest = request.kind is not None and request.kind.plural == "manifests"
        if is_manifest and request.is_write and answer.code < 300:
            live = answer.document()
            labels = live["metadata"].get("labels", {})
            key = labels.get(names.KYMA_NAME, ""), labels.get(names.MODULE_NAME, "")
            if key in self.made and live["spec"].get("customResourcePolicy") == "Ignore":
                self.seconds.append(time.monotonic() - self.made.pop(key))
        return answer


class FormerFleet:
    """The clusters, and the commands on them. `leaves` are the certificates of the former Watchers, by Kyma."""

    def __init__(self, simulation: Simulation, kymas: int, registry: str) -> None:
        self.kcp = simulation.cluster("kcp")
        self.skrs = [simulation.cluster(former_name(number)) for number in range(kymas)]
        self.registry = registry
        self.counter, self.arrivals = WriteCounter(), Arrivals()
        self.issued = Certificates.issue()
        self.leaves = {each.name: self.issued.leaf(each.name) for each in self.skrs}
        self._uids = itertools.count(1)

    def leave_behind(self) -> None:
        """Restore what the former version left in the control plane and in each cluster."""
        self._restore_control_plane()
        documents = start("skr-1")
        definitions, others = _split(documents, _is_definition)
        own, common = _split(definitions, lambda it: it["metadata"]["name"].startswith("samples."))
        for skr in self.skrs:
            name = skr.name
            skr.restore(common)
            contents = self.issued.secrets_in(self.leaves[name])
            texts = {KYMA: name, REGISTRY: self.registry}
            self._restore_copies(skr, own, texts)
            self._restore_copies(skr, [filled(each, contents) for each in others], texts)
            skr.add_rule(self.counter)
            skr.add_rule(DeploymentController(skr))
            for each in skr.objects():
                if _is_of_a_module(each):
                    self.counter.uids[_object_name(name, each)] = each["metadata"]["uid"]

    def _restore_control_plane(self) -> None:
        registration, others = _split(start("kcp"), lambda it: KYMA in it["metadata"]["name"])
        definitions, shared = _split(others, _is_definition)
        ours = {each["metadata"]["name"]: each for each in crds.all_crds()}
        kept = [each for each in definitions if each["metadata"]["name"] not in ours]
        self.kcp.restore([*kept, *ours.values(), *foreign_crds(shared)])  # this version's, as its chart does
        self._restore_copies(self.kcp, [filled(each, self.issued.secrets()) for each in shared], {})
        labels = {names.MANAGED_BY: names.LIFECYCLE_MANAGER}  # as klm adopt does
        for skr in self.skrs:
            contents = self.issued.secrets_of(skr.name, self.leaves[skr.name], json.dumps(skr.kubeconfig))
            of_recorded = {each.replace(skr.name, KYMA): content for each, content in contents.items()}
            written = [filled(each, of_recorded) for each in registration]
            for each in written:
                if each["metadata"]["name"].startswith("kubeconfig-"):
                    metadata = each["metadata"]
                    each["metadata"] = {**metadata, "labels": {**metadata["labels"], **labels}}
            self._restore_copies(self.kcp, written, {KYMA: skr.name, REGISTRY: self.registry})
        self.kcp.add_rule(self.arrivals)

    def _restore_copies(self, cluster: SimulatedCluster, documents: list[Document], texts: dict[str, str]) -> None:
        """Restore objects under other names, each with an identity of its own."""
        uids = {each["metadata"].get("uid"): f"00000000-0000-0000-0000-{next(self._uids):012}" for each in documents}
        text = msgspec.json.encode(documents).decode()
        for recorded, replacement in (texts | uids).items():
            text = text.replace(recorded, replacement)
        _restore(cluster, msgspec.json.decode(text))

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
            "arrived": len(self.arrivals.seconds),
        }

    def _change(self, number: int) -> Document:
        """Change the policy of a cluster's next module as its user does; return what the Watcher sees."""
        skr = self.skrs[number]
        live = skr.answer_to("GET", KYMA_CR).document()
        unchanged = [each for each in live["spec"]["modules"] if each["customResourcePolicy"] != "Ignore"]
        unchanged[0]["customResourcePolicy"] = "Ignore"
        self.arrivals.made[skr.name, unchanged[0]["name"]] = time.monotonic()
        patch = {"spec": {"modules": live["spec"]["modules"]}}
        metadata = skr.answer_to("PATCH", f"{KYMA_CR}?fieldManager=user", patch, MERGE).document()["metadata"]
        return {"uid": metadata["uid"], "version": metadata["resourceVersion"]}

    def _watcher(self, number: int) -> Document:
        """Return the certificate of the former Watcher of a cluster, and what it trusts."""
        leaf: KeyPair = self.leaves[former_name(number)]
        return {
            "certificate": leaf.certificate_pem.decode(),
            "key": leaf.key_pem.decode(),
            "trusted": self.issued.bundle.decode(),
        }

    def _verdict(self) -> Document:
        """Return what has become of the objects of modules, and of the changes of users."""
        counter = self.counter
        verbs = Counter[str]()
        for each in counter.writes.values():
            verbs.update(each)
        found = {_object_name(skr.name, each): each for skr in self.skrs for each in skr.objects()}
        same = sum(named in found and found[named]["metadata"]["uid"] == uid for named, uid in counter.uids.items())
        ours = sum(_appliers(found[named]) == {APPLIED_BY_OURS} for named in counter.uids if named in found)
        seconds = sorted(self.arrivals.seconds) or [0.0]
        return {
            "objects": len(counter.uids),
            "replaced": len(counter.uids) - same,
            "taken_over": ours,
            "max_applies": max((each["apply"] for each in counter.writes.values()), default=0),
            "max_patches": max((each["patch"] for each in counter.writes.values()), default=0),
            "deletions": verbs["delete"],
            "writes": dict(verbs),
            "arrived": len(self.arrivals.seconds),
            "arrival_p50": seconds[len(seconds) // 2],
            "arrival_p99": seconds[len(seconds) * 99 // 100],
        }


def _restore(cluster: SimulatedCluster, documents: Iterable[Document]) -> None:
    cluster.restore(sorted(documents, key=lambda it: it["kind"] not in {"Namespace", "CustomResourceDefinition"}))


def _split(documents: Iterable[Document], chosen: Callable[[Document], bool]) -> tuple[list[Document], list[Document]]:
    found: tuple[list[Document], list[Document]] = ([], [])
    for each in documents:
        found[0 if chosen(each) else 1].append(each)
    return found


def _is_definition(document: Document) -> bool:
    return bool(document["kind"] == "CustomResourceDefinition")


def _is_of_a_module(live: Document) -> bool:
    return marks.APPLIER in _appliers(live) or live["kind"] == "Sample"


def _appliers(live: Document) -> set[str]:
    managed = live["metadata"].get("managedFields") or ()
    return {each["manager"] for each in managed if each["operation"] == "Apply"}


def _object_name(cluster: str, live: Document) -> ObjectName:
    metadata, group = live["metadata"], live["apiVersion"].rpartition("/")[0]
    return cluster, f"{live['kind'].lower()}s.{group}", metadata.get("namespace", ""), metadata["name"]


async def serve(arguments: argparse.Namespace) -> None:
    """Serve the clusters and execute commands until the input ends."""
    async with serve_simulation(history=20_000, records=0) as simulation:
        fleet = FormerFleet(simulation, arguments.kymas, arguments.registry)
        fleet.leave_behind()
        gc.disable()  # it takes seconds here, and would count as a pause of the measured process
        write_line({"kubeconfig": fleet.kcp.kubeconfig, "kubeconfigs": []})
        await obey(fleet)


def main() -> None:
    """Read the command line and serve."""
    import uvloop  # noqa: PLC0415 - needed by the program only

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kymas", type=int, default=1_000)
    parser.add_argument("--registry", required=True, help="host with the modules")
    uvloop.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
