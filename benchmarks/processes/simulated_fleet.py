"""A simulated control plane with thousands of simulated user clusters, controlled by lines of JSON on its input.

At the start the control plane has a catalog, and a Kyma with its access Secret for every cluster. Each line of the
output answers one command, or reports an awaited Manifest: `{"applied": ["kyma-7", "module-a"], "at": 12.5}`, with the
monotonic clock of the machine. Run by `benchmarks.fleet` and `benchmarks.hostile_fleet`.

With `--first` it simulates the clusters from that number on, and no control plane: a second process of this kind, with
a lower priority, so that what these clusters do costs the others no time in the simulation. `--elsewhere` names the
file with their kubeconfigs to the first process.
"""

import argparse
import asyncio
import base64
import gc
import itertools
import json
import os
import ssl
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from benchmarks.processes.simulated_watchers import SimulatedWatcher
from kube_runtime import dump_yaml
from kube_simulation import (
    Answer,
    ApiRequest,
    Delay,
    NeverAnswer,
    Refuse,
    Refused,
    Rule,
    SimulatedCluster,
    Simulation,
    serve_simulation,
)
from kyma_certs import LeafRequest, create_ca, issue
from lifecycle_manager_api import Kyma, ModuleRollout, ResourceList, State, crds, find, names

MODULES = tuple(f"module-{letter * 3}" for letter in "abcdefghij")
VERSIONS = ("1.0.0", "1.1.0")
CONFIGURED = "module-configured"
"""The module that every Kyma has with `--configured`: users configure it by Things."""
THINGS = f"/apis/example.com/v1/namespaces/{names.SKR_NAMESPACE}/things"
API = f"/apis/{names.GROUP}/v1beta2/namespaces"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
Document = dict[str, Any]


@dataclass(frozen=True)
class Layers:
    """The layers of the modules: a registry, and the digest of each version by its name."""

    registry: str
    digests: dict[str, str]


def kyma_name(number: int) -> str:
    """Return the name of a Kyma, and of its cluster."""
    return f"kyma-{number}"


class RequestCounter(Rule):
    """Counts the requests to the clusters."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.detail: Counter[str] = Counter()
        self.reconciled: set[str] = set()
        self.writes_to: Counter[str] = Counter()

    async def around(self, request: ApiRequest, proceed: Callable[[], Awaitable[Answer]]) -> Answer:
        side = "kcp" if request.cluster == "kcp" else "skr"
        if request.verb != "watch":
            self.counts[f"{side}_{'writes' if request.is_write else 'reads'}"] += 1
            kind = request.kind.plural if request.kind is not None else "discovery"
            if side == "skr" and (request.verb, kind) == ("get", "kymas"):
                self.reconciled.add(request.cluster)
            if side == "skr" and request.is_write:
                self.writes_to[request.cluster] += 1
            self.detail[f"{side} {request.verb} {kind}/{request.subresource} by {request.manager}"] += 1
        return await proceed()


class ManifestReporter(Rule):
    """Reports when awaited Manifests are written."""

    def __init__(self) -> None:
        self.keys: set[tuple[str, str]] = set()

    async def around(self, request: ApiRequest, proceed: Callable[[], Awaitable[Answer]]) -> Answer:
        answer = await proceed()
        of_manifest = request.kind is not None and request.kind.plural == "manifests"
        if of_manifest and request.verb == "apply" and not request.subresource and answer.code < 300:
            labels = answer.document()["metadata"]["labels"]
            key = (labels[names.KYMA_NAME], labels[names.MODULE_NAME])
            if key in self.keys:
                self.keys.discard(key)
                write_line({"applied": key, "at": time.monotonic()})
        return answer


class Reviewer(Rule):
    """Lets everybody see the fleet page: any token is of somebody who may list Kymas."""

    async def around(self, request: ApiRequest, proceed: Callable[[], Awaitable[Answer]]) -> Answer:
        if request.path.endswith(("/tokenreviews", "/subjectaccessreviews")):
            status = {"authenticated": True, "allowed": True, "user": {"username": "operator"}}
            return Answer(201, msgspec.json.encode({"metadata": {}, "status": status}))
        return await proceed()


class ThingOperator(Rule):
    """Reports a default Thing as ready once it is created, as the operator of the module would."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster

    async def around(self, request: ApiRequest, proceed: Callable[[], Awaitable[Answer]]) -> Answer:
        answer = await proceed()
        is_thing = request.kind is not None and request.kind.plural == "things"
        if is_thing and request.verb == "create" and answer.code < 300:
            self.cluster.answer_to("PATCH", f"{THINGS}/default", {"status": {"state": "Ready"}}, MERGE)
        return answer


class HaltObserver(Rule):
    """Notes when too many clusters of the later waves have failed with a version, and when its rollout is halted."""

    def __init__(self, module: str, version: str, too_many: int) -> None:
        self.module, self.version, self.too_many = module, version, too_many
        self.with_version: set[str] = set()
        self.failed: set[str] = set()
        self.updated_at_crossing = 0
        self.crossed_at = self.halted_at = 0.0

    async def around(self, request: ApiRequest, proceed: Callable[[], Awaitable[Answer]]) -> Answer:
        answer = await proceed()
        plural = request.kind.plural if request.kind is not None else ""
        if not request.is_write or answer.code >= 300 or self.module not in request.name:
            return answer
        if plural == "manifests":
            self._note(answer.document())
        elif plural == "modulerollouts" and not self.halted_at:
            document = answer.document()
            is_halted = document.get("status", {}).get("phase") == "Halted"
            self.halted_at = time.monotonic() if is_halted and document["spec"]["version"] == self.version else 0.0
        return answer

    def _note(self, manifest: Document) -> None:
        if manifest["spec"]["version"] != self.version:
            return
        name = manifest["metadata"]["name"]
        self.with_version.add(name)
        if manifest.get("status", {}).get("state") == "Error":
            self.failed.add(name)
        if len(self.failed) >= self.too_many and not self.crossed_at:
            self.crossed_at, self.updated_at_crossing = time.monotonic(), len(self.with_version)


class ConfigReporter(Rule):
    """Reports when awaited texts arrive in ModuleConfigs."""

    def __init__(self) -> None:
        self.marks: dict[bytes, str] = {}

    async def around(self, request: ApiRequest, proceed: Callable[[], Awaitable[Answer]]) -> Answer:
        answer = await proceed()
        if self.marks and request.is_write and request.kind is not None and request.kind.plural == "moduleconfigs":
            for mark in [each for each in self.marks if each in request.body]:
                write_line({"applied": [self.marks.pop(mark), CONFIGURED], "at": time.monotonic()})
        return answer


class Fleet:
    """The clusters, and the commands on them."""

    def __init__(
        self,
        simulation: Simulation,
        kymas: range,
        modules: int,
        layers: Layers,
        *,
        configured: bool = False,
        alike: bool = False,
        elsewhere: Sequence[Document] = (),
        ca: bytes = b"",
    ) -> None:
        self.simulation = simulation
        self.ca = ca
        self.kcp = simulation.cluster("kcp")
        self.skrs = {number: simulation.cluster(kyma_name(number)) for number in kymas}
        self.requests = RequestCounter()
        self.awaited = ManifestReporter()
        self.silent: dict[str, NeverAnswer] = {}
        self.watchers: list[SimulatedWatcher] = []
        self.configs = ConfigReporter()
        self.halt = HaltObserver("", "", 0)
        self.edits = itertools.count(1)
        self.versions: dict[tuple[int, str], str] = {}
        if kymas.start == 0:
            kubeconfigs = [*map(self.kubeconfig, self.skrs.values()), *elsewhere]
            self._set_up(modules, layers, kubeconfigs, configured=configured, alike=alike)
        for cluster in (self.kcp, *self.skrs.values()):
            cluster.add_rule(self.requests)
        self.kcp.add_rule(Reviewer())
        self.kcp.add_rule(self.awaited)
        self.kcp.add_rule(self.configs)
        if configured:
            for skr in self.skrs.values():
                skr.add_rule(ThingOperator(skr))

    def kubeconfig(self, cluster: SimulatedCluster) -> Document:
        """Return the kubeconfig of a cluster, with the CA of its server where that has TLS."""
        config = cluster.kubeconfig
        if self.ca:
            config["clusters"][0]["cluster"]["certificate-authority-data"] = base64.b64encode(self.ca).decode()
        return config

    def execute(self, command: Document) -> Document:
        """Execute a command, and return the answer."""
        do: Callable[..., Document] = getattr(self, f"_{command.pop('do')}")
        return do(**command)

    def _set_up(
        self, modules: int, layers: Layers, kubeconfigs: Sequence[Document], *, configured: bool, alike: bool
    ) -> None:
        self.kcp.answer_to("POST", "/api/v1/namespaces", {"metadata": {"name": names.KCP_NAMESPACE}})
        for crd in crds.all_crds():
            target = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?fieldManager=benchmark"
            answer = self.kcp.answer_to("POST", target, crd)
            assert answer.code == 201, answer.body
        uids = itertools.count(1)
        self.kcp.restore(_with_uid(document, uids) for document in _catalog(layers, configured))
        for number, kubeconfig in enumerate(kubeconfigs):
            documents = _registration(number, modules, kubeconfig, configured=configured, alike=alike)
            self.kcp.restore(_with_uid(each, uids) for each in documents)

    def _counts(self) -> Document:
        return {"reconciled": len(self.requests.reconciled), **self.requests.counts}

    def _begin_round(self) -> Document:
        """Reset the counts of clusters whose Kyma CR is read, and of writes to each cluster."""
        self.requests.reconciled.clear()
        self.requests.writes_to.clear()
        return self._counts()

    def _writes(self, beyond: int) -> Document:
        """Return the writes of this round to the clusters from a number on."""
        users = {kyma_name(number) for number in range(beyond)}
        return {"writes": sum(count for cluster, count in self.requests.writes_to.items() if cluster not in users)}

    def _detail(self) -> Document:
        """Return the requests since the last call by verb, kind and field manager."""
        detail, self.requests.detail = dict(self.requests.detail), Counter()
        return detail

    def _stored(self) -> Document:
        """Return the number of objects in the control plane and their size as JSON, by kind."""
        sizes: dict[str, list[int]] = {}
        for each in self.kcp.objects():
            sizes.setdefault(each["kind"], []).append(len(msgspec.json.encode(each)))
        return {kind: {"objects": len(each), "bytes": sum(each)} for kind, each in sizes.items()}

    def _in_sync(self) -> Document:
        """Return how many Kymas have their modules and their catalog."""
        body = self.kcp.answer_to("GET", f"{API}/{names.KCP_NAMESPACE}/kymas").body
        kymas = msgspec.json.decode(body, type=ResourceList[Kyma]).items
        return {"in_sync": sum(_is_in_sync(kyma) for kyma in kymas), "of": len(kymas)}

    def _at_version(self, module: str, version: str) -> Document:
        body = self.kcp.answer_to("GET", f"{API}/{names.KCP_NAMESPACE}/kymas").body
        kymas = msgspec.json.decode(body, type=ResourceList[Kyma]).items
        answering = (kyma for kyma in kymas if kyma.metadata.name not in self.silent)
        modules = (each for kyma in answering for each in kyma.status.modules)
        found = [each.version for each in modules if each.name == module]
        return {"there": found.count(version), "of": len(found)}

    def _edit(self, kyma: int, module: str, wanted: bool) -> Document:
        """Edit the Kyma CR in a cluster as its user: add a module, or remove it."""
        skr = self.skrs[kyma]
        path = f"{API}/{names.SKR_NAMESPACE}/kymas/{names.DEFAULT_KYMA_NAME}"
        current = skr.answer_to("GET", path).document()
        modules = [each for each in current["spec"]["modules"] if each["name"] != module]
        if wanted:
            modules.append({"name": module, "managed": True})
            self.awaited.keys.add((kyma_name(kyma), module))
        skr.answer_to("PATCH", f"{path}?fieldManager=user", {"spec": {"modules": modules}}, MERGE)
        metadata = current["metadata"]
        return {"edited": kyma, "uid": metadata["uid"], "version": metadata["resourceVersion"], "at": time.monotonic()}

    def _bump(self, module: str, version: str) -> Document:
        path = f"{API}/{names.KCP_NAMESPACE}/modulereleasemetas/{module}?fieldManager=team"
        channels = [{"channel": "regular", "version": version}, {"channel": "fast", "version": VERSIONS[-1]}]
        self.kcp.answer_to("PATCH", path, {"spec": {"channels": channels}}, MERGE)
        return {"bumped": module}

    def _govern(self, module: str, waves: int, rules: Document) -> Document:
        """Give a module a strategy with so many waves of equal size; the last one is that of the remaining clusters."""
        for number in self.skrs:
            path = f"{API}/{names.KCP_NAMESPACE}/kymas/{kyma_name(number)}?fieldManager=broker"
            self.kcp.answer_to("PATCH", path, {"metadata": {"labels": {"wave": f"{number % waves}"}}}, MERGE)
        selected = [
            {"name": f"wave-{number}", "kymaSelector": {"matchLabels": {"wave": f"{number}"}}, **rules}
            for number in range(waves - 1)
        ]
        strategy = {
            "apiVersion": f"{names.GROUP}/v1alpha1",
            "kind": "RolloutStrategy",
            "metadata": {"name": module},
            "spec": {"waves": selected, "remaining": rules},
        }
        path = f"/apis/{names.GROUP}/v1alpha1/namespaces/{names.KCP_NAMESPACE}/rolloutstrategies"
        answer = self.kcp.answer_to("POST", f"{path}?fieldManager=operator", strategy)
        assert answer.code == 201, answer.body
        mark = {"metadata": {"annotations": {names.ROLLOUT_STRATEGY: module}}}
        path = f"{API}/{names.KCP_NAMESPACE}/modulereleasemetas/{module}?fieldManager=operator"
        self.kcp.answer_to("PATCH", path, mark, MERGE)
        return {"governed": module}

    def _rollout(self, module: str) -> Document:
        """Return how far the latest rollout of a module is."""
        path = f"/apis/{names.GROUP}/v1alpha1/namespaces/{names.KCP_NAMESPACE}/modulerollouts"
        body = self.kcp.answer_to("GET", path).body
        rollouts = msgspec.json.decode(body, type=ResourceList[ModuleRollout]).items
        of_module = [each for each in rollouts if each.spec.module_name == module]
        if not of_module:
            return {"phase": "", "version": ""}
        latest = max(of_module, key=lambda each: each.spec.revision)
        return {"phase": latest.status.phase, "version": latest.spec.version}

    def _await_halt(self, module: str, version: str, too_many: int) -> Document:
        """Note when so many clusters have failed with a version, and when its rollout is halted."""
        self.halt = HaltObserver(module, version, too_many)
        self.kcp.add_rule(self.halt)
        return {"awaited": module}

    def _halt(self) -> Document:
        """Return what was noted: times, and how many clusters had the version at each and have it now."""
        halt = self.halt
        return {
            "crossed_at": halt.crossed_at,
            "halted_at": halt.halted_at,
            "updated_after": len(halt.with_version) - halt.updated_at_crossing,
        }

    def _silence(self, share: float) -> Document:
        """Let a share of the clusters, the last ones, accept connections and never answer."""
        for skr in list(self.skrs.values())[len(self.skrs) - round(len(self.skrs) * share) :]:
            self.silent[skr.name] = NeverAnswer()
            skr.add_rule(self.silent[skr.name])
        return {"silent": len(self.silent)}

    def _watch(self, port: int) -> Document:
        """Let the Watchers of all clusters send their first event to a port, and answer canaries from then on."""
        for skr in self.skrs.values():
            path = f"/api/v1/namespaces/{names.KCP_NAMESPACE}/secrets/{skr.name}-webhook-tls"
            watcher = SimulatedWatcher(self.kcp.answer_to("GET", path).document()["data"], port)
            skr.add_rule(watcher)
            watcher.send()
            self.watchers.append(watcher)
        return {"watching": len(self.watchers)}

    def _answered(self) -> Document:
        """Return how many events of these Watchers were accepted."""
        return {"events": sum(watcher.answered for watcher in self.watchers)}

    def _refuse(self, kyma: int, name: str, text: str) -> Document:
        """Let a cluster refuse to write objects of a name, as a webhook does."""
        refused = Refused(403, "Forbidden", text)
        self.skrs[kyma].add_rule(Refuse(lambda request: request.is_write and request.name == name, refused=refused))
        return {"refusing": kyma}

    def _expect(self, kyma: int, mark: str) -> Document:
        """Report when a text with this mark arrives in a ModuleConfig of a cluster."""
        marks = {each: name for each, name in self.configs.marks.items() if name != kyma_name(kyma)}
        self.configs.marks = {**marks, mark.encode(): kyma_name(kyma)}
        return {"expected": kyma}

    def _configure(self, kyma: int, mark: str) -> Document:
        """Make a small change in the default Thing of a cluster as its user."""
        return self._edit_thing(kyma, "default", {"text": mark})

    def _edit_large(self, kyma: int, thing: int) -> Document:
        """Edit a large Thing of a cluster."""
        return self._edit_thing(kyma, f"large-{thing}", {"text": f"{next(self.edits)}"})

    def _edit_thing(self, kyma: int, name: str, spec: Document) -> Document:
        """Edit a Thing; return the version that this replaces, which an event names."""
        skr, path = self.skrs[kyma], f"{THINGS}/{name}"
        known = self.versions.get((kyma, name))
        replaced = known or skr.answer_to("GET", path).document()["metadata"]["resourceVersion"]
        answer = skr.answer_to("PATCH", f"{path}?fieldManager=user", {"spec": spec}, MERGE)
        assert answer.code == 200, answer.body
        metadata = answer.document()["metadata"]
        self.versions[kyma, name] = metadata["resourceVersion"]
        return {"edited": kyma, "name": name, "uid": metadata["uid"], "version": replaced, "at": time.monotonic()}

    def _crowd(self, kyma: int, large: int, small: int) -> Document:
        """Create large Things in a cluster, of as many numbers or bytes as are taken by turns, and many small ones."""
        contents = ({"numbers": [number * 0.37 for number in range(45_000)]}, {"lines": "é\n" * 350_000})
        for name, spec in (
            *((f"large-{number}", contents[number % 2]) for number in range(large)),
            *((f"small-{number}", {"text": "small"}) for number in range(small)),
        ):
            thing = {**_thing(), "metadata": {"name": name, "namespace": names.SKR_NAMESPACE}, "spec": spec}
            answer = self.skrs[kyma].answer_to("POST", THINGS, thing)
            assert answer.code == 201, answer.body
        return {"crowded": kyma}

    def _stall(self, kyma: int, seconds: float) -> Document:
        """Let a cluster answer just in time."""
        self.skrs[kyma].add_rule(Delay(lambda request: request.verb != "watch", seconds=seconds))
        return {"stalling": kyma}

    def _alias(self, kyma: int, text: str) -> Document:
        """Write a SyncResource for a cluster, as a module team does."""
        path = f"/apis/{names.GROUP}/v1alpha1/namespaces/{names.KCP_NAMESPACE}/syncresources"
        name = f"{kyma_name(kyma)}-aliases"
        spec = {"kyma": kyma_name(kyma), "module": CONFIGURED, "resource": text}
        labels = {names.KYMA_NAME: kyma_name(kyma), names.MODULE_NAME: CONFIGURED}
        document = {
            "apiVersion": f"{names.GROUP}/v1alpha1",
            "kind": "SyncResource",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
        }
        answer = self.kcp.answer_to("PATCH", f"{path}/{name}?fieldManager=team&force=true", document, APPLY)
        assert answer.code < 300, answer.body
        return {"aliases": kyma}

    def _allow_config_maps(self) -> Document:
        """Let the configured module have ConfigMaps in kyma-system, so that its texts are not refused by policy."""
        path = f"/apis/{names.GROUP}/v1alpha1/namespaces/{names.KCP_NAMESPACE}/modulepolicies/{CONFIGURED}"
        document = {
            "apiVersion": f"{names.GROUP}/v1alpha1",
            "kind": "ModulePolicy",
            "metadata": {"name": CONFIGURED},
            "spec": {"namespacedResources": {"allow": [{"group": "", "kind": "ConfigMap", "names": ["*"]}]}},
        }
        answer = self.kcp.answer_to("PATCH", f"{path}?fieldManager=operators&force=true", document, APPLY)
        assert answer.code < 300, answer.body
        return {"allowed": CONFIGURED}


def _thing() -> Document:
    metadata = {"name": "default", "namespace": names.SKR_NAMESPACE}
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata, "spec": {"text": "default"}}


def definition_of_things() -> Document:
    """Return the definition of the Module CRs of the configured module."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [version],
        },
    }


def _catalog(layers: Layers, configured: bool) -> Iterator[Document]:
    for module in (*MODULES, CONFIGURED) if configured else MODULES:
        data = {"data": _thing(), "enableModuleConfig": True} if module == CONFIGURED else {}
        for version in VERSIONS:
            yield _object(
                "ModuleTemplate",
                f"{module}-{version}",
                {
                    "moduleName": module,
                    "version": version,
                    **data,
                    "descriptor": {
                        "component": {
                            "name": f"example.com/module/{module}",
                            "version": version,
                            "repositoryContexts": [{"baseUrl": layers.registry}],
                            "resources": [
                                {
                                    "name": "raw-manifest",
                                    "access": {"localReference": layers.digests[f"{module}-{version}"]},
                                }
                            ],
                        }
                    },
                },
            )
        channels = [{"channel": "regular", "version": VERSIONS[0]}, {"channel": "fast", "version": VERSIONS[1]}]
        yield _object("ModuleReleaseMeta", module, {"moduleName": module, "channels": channels})


def _registration(
    number: int, modules: int, kubeconfig: Document, *, configured: bool, alike: bool
) -> Iterator[Document]:
    """Return the Kyma of a cluster and its access Secret."""
    name = kyma_name(number)
    labels = {names.KYMA_NAME: name, names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    config = base64.b64encode(dump_yaml(kubeconfig).encode()).decode()
    metadata = {"name": f"kubeconfig-{name}", "namespace": names.KCP_NAMESPACE, "labels": labels}
    yield {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": {"config": config}}
    first = 0 if alike else number
    chosen = [MODULES[(first + index) % (len(MODULES) - 1)] for index in range(modules)]
    chosen += [CONFIGURED] if configured else []
    # With its defaults, as the API server stores it: else the first write would be another generation.
    defaults = {"managed": True, "customResourcePolicy": "CreateAndDelete"}
    spec = {"channel": "regular", "modules": [{"name": module, **defaults} for module in chosen]}
    kyma = _object("Kyma", name, spec)
    kyma["metadata"]["labels"] = {names.RUNTIME_ID: f"runtime-{number}", names.REGION: "eu-central-1"}
    yield kyma


def _object(kind: str, name: str, spec: Document) -> Document:
    metadata = {"name": name, "namespace": names.KCP_NAMESPACE, "generation": 1}
    return {"apiVersion": f"{names.GROUP}/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}


def _with_uid(document: Document, uids: Iterator[int]) -> Document:
    assigned = {"uid": f"00000000-0000-0000-0000-{next(uids):012}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {**document, "metadata": {**document["metadata"], **assigned}}


def _is_in_sync(kyma: Kyma) -> bool:
    catalog = find(kyma.status.conditions, "ModuleCatalog")
    modules = kyma.status.modules
    return (
        bool(modules)
        and all(each.state is State.READY or each.name == CONFIGURED for each in modules)  # it may still start
        and bool(catalog and catalog.status == "True")
    )


def write_line(line: Document) -> None:
    """Write one line to the output."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _server_tls() -> tuple[ssl.SSLContext, bytes]:
    """Return the context of a server on this machine, and the CA of its certificate."""
    now = datetime.now(UTC)
    ca = create_ca("api-servers", lifetime=timedelta(days=2), now=now)
    leaf = issue(ca, LeafRequest(common_name="api-server", ip_addresses=("127.0.0.1",)), now=now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory() as folder:
        pair = Path(folder) / "pair.pem"
        pair.write_bytes(leaf.certificate_pem + leaf.key_pem)
        context.load_cert_chain(pair)
    return context, ca.certificate_pem


async def serve(arguments: argparse.Namespace) -> None:
    """Serve the clusters and execute commands until the input ends."""
    tls, ca = _server_tls() if arguments.tls else (None, b"")
    async with serve_simulation(history=200_000, records=0, tls=tls) as simulation:
        layers = msgspec.json.decode(arguments.layers.read_bytes(), type=Layers)
        elsewhere = msgspec.json.decode(arguments.elsewhere.read_bytes()) if arguments.elsewhere is not None else []
        kymas = range(arguments.first, arguments.kymas - len(elsewhere))
        fleet = Fleet(
            simulation,
            kymas,
            arguments.modules,
            layers,
            configured=arguments.configured,
            alike=arguments.alike,
            elsewhere=elsewhere,
            ca=ca,
        )
        # Garbage collection takes seconds here, and would count as a pause of the measured process.
        gc.disable()
        kubeconfigs = [skr.kubeconfig for skr in fleet.skrs.values()] if kymas.start else []
        write_line({"kubeconfig": fleet.kubeconfig(fleet.kcp), "kubeconfigs": kubeconfigs})
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            write_line(fleet.execute(json.loads(line)))


def main() -> None:
    """Read the command line and serve."""
    import uvloop  # noqa: PLC0415 - needed by the program only

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kymas", type=int, default=10_000)
    parser.add_argument("--modules", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="number of the first cluster of this process")
    parser.add_argument("--elsewhere", type=Path, help="file with the kubeconfigs of the last clusters")
    parser.add_argument("--alike", action="store_true", help="every Kyma has the same modules")
    parser.add_argument("--tls", action="store_true", help="the API servers have TLS")
    parser.add_argument("--configured", action="store_true", help="every Kyma has a module with Module CRs, too")
    parser.add_argument(
        "--layers", type=Path, required=True, help="file with the registry and the digests of the layers"
    )
    arguments = parser.parse_args()
    if arguments.first:
        os.nice(10)
    uvloop.run(serve(arguments))


if __name__ == "__main__":
    main()
