"""A simulated control plane with thousands of simulated user clusters, controlled by lines of JSON on its input.

At the start the control plane has a catalog, and a Kyma with its access Secret for every cluster. Each line of the
output answers one command, or reports an awaited Manifest: `{"applied": ["kyma-7", "module-a"], "at": 12.5}`, with the
monotonic clock of the machine. Run by `benchmarks.fleet` and `benchmarks.hostile_fleet`.

With `--first` it simulates the clusters from that number on, and no control plane: a second process of this kind, with
a lower priority, so that what these clusters do costs the others no time in the simulation. `--elsewhere` names the
file with their kubeconfigs to the first process.
"""

import argparse
import base64
import gc
import itertools
import os
import time
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.processes.fleet_documents import (
    API,
    APPLY,
    CONFIGURED,
    MERGE,
    THINGS,
    VERSIONS,
    Document,
    Layers,
    catalog,
    is_in_sync,
    kyma_name,
    registration,
    thing,
    with_uid,
)
from benchmarks.processes.fleet_rules import (
    ConfigReporter,
    HaltObserver,
    ManifestReporter,
    RequestCounter,
    Reviewer,
    ThingOperator,
)
from benchmarks.processes.output import obey, write_line
from benchmarks.processes.server_tls import server_tls
from benchmarks.processes.simulated_watchers import SimulatedWatcher
from kube_simulation import (
    Delay,
    NeverAnswer,
    Refuse,
    Refused,
    SimulatedCluster,
    Simulation,
    serve_simulation,
)
from lifecycle_manager_api import Kyma, ModuleRollout, ResourceList, crds, names


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
        arriving: int = 0,
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
        self.arriving: deque[list[Document]] = deque()
        if kymas.start == 0:
            kubeconfigs = [*map(self.kubeconfig, self.skrs.values()), *elsewhere]
            here = len(kubeconfigs) - arriving
            self._set_up(modules, layers, kubeconfigs, here, configured=configured, alike=alike)
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

    def _set_up(
        self, modules: int, layers: Layers, kubeconfigs: Sequence[Document], here: int, *, configured: bool, alike: bool
    ) -> None:
        """Bring the catalog and the first Kymas; the others arrive later."""
        self.kcp.answer_to("POST", "/api/v1/namespaces", {"metadata": {"name": names.KCP_NAMESPACE}})
        for crd in crds.all_crds():
            target = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?fieldManager=benchmark"
            answer = self.kcp.answer_to("POST", target, crd)
            assert answer.code == 201, answer.body
        uids = itertools.count(1)
        self.kcp.restore(with_uid(document, uids) for document in catalog(layers, configured))
        for number, kubeconfig in enumerate(kubeconfigs):
            documents = registration(number, modules, kubeconfig, configured=configured, alike=alike)
            if number < here:
                self.kcp.restore(with_uid(each, uids) for each in documents)
            else:
                self.arriving.append(list(documents))

    def _arrive(self) -> Document:
        """Register the next cluster that has no Kyma yet, as a broker does."""
        secret, kyma = self.arriving.popleft()
        for path, document in (("/api/v1/namespaces", secret), (API, kyma)):
            plural = f"{document['kind'].lower()}s"
            target = f"{path}/{names.KCP_NAMESPACE}/{plural}?fieldManager=broker"
            answer = self.kcp.answer_to("POST", target, document)
            assert answer.code == 201, answer.body
        return {"left": len(self.arriving)}

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
        return {"in_sync": sum(is_in_sync(kyma) for kyma in kymas), "of": len(kymas)}

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
            document = {**thing(), "metadata": {"name": name, "namespace": names.SKR_NAMESPACE}, "spec": spec}
            answer = self.skrs[kyma].answer_to("POST", THINGS, document)
            assert answer.code == 201, answer.body
        return {"crowded": kyma}

    def _stall(self, kyma: int, seconds: float) -> Document:
        """Let a cluster answer just in time."""
        self.skrs[kyma].add_rule(Delay(lambda request: request.verb != "watch", seconds=seconds))
        return {"stalling": kyma}

    def _alias(self, kyma: int, text: str) -> Document:
        """Write a SyncResource for a cluster, as a module team does."""
        name = f"{kyma_name(kyma)}-aliases"
        spec = {"kyma": kyma_name(kyma), "module": CONFIGURED, "resource": text}
        labels = {names.KYMA_NAME: kyma_name(kyma), names.MODULE_NAME: CONFIGURED}
        self._apply("SyncResource", {"metadata": {"name": name, "labels": labels}, "spec": spec}, "team")
        return {"aliases": kyma}

    def _allow_config_maps(self) -> Document:
        """Let the configured module have ConfigMaps in kyma-system, so that its texts are not refused by policy."""
        spec = {"namespacedResources": {"allow": [{"group": "", "kind": "ConfigMap", "names": ["*"]}]}}
        self._apply("ModulePolicy", {"metadata": {"name": CONFIGURED}, "spec": spec}, "operators")
        return {"allowed": CONFIGURED}

    def _apply(self, kind: str, content: Document, manager: str) -> None:
        """Apply an object in KCP."""
        plural = {"ModulePolicy": "modulepolicies", "SyncResource": "syncresources"}[kind]
        path = f"/apis/{names.GROUP}/v1alpha1/namespaces/{names.KCP_NAMESPACE}/{plural}/{content['metadata']['name']}"
        document = {"apiVersion": f"{names.GROUP}/v1alpha1", "kind": kind, **content}
        answer = self.kcp.answer_to("PATCH", f"{path}?fieldManager={manager}&force=true", document, APPLY)
        assert answer.code < 300, answer.body


async def serve(arguments: argparse.Namespace) -> None:
    """Serve the clusters and execute commands until the input ends."""
    tls, ca = server_tls() if arguments.tls else (None, b"")
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
            arriving=arguments.arriving,
            elsewhere=elsewhere,
            ca=ca,
        )
        # Garbage collection takes seconds here, and would count as a pause of the measured process.
        gc.disable()
        kubeconfigs = [skr.kubeconfig for skr in fleet.skrs.values()] if kymas.start else []
        write_line({"kubeconfig": fleet.kubeconfig(fleet.kcp), "kubeconfigs": kubeconfigs})
        await obey(fleet)


def main() -> None:
    """Read the command line and serve."""
    import uvloop  # noqa: PLC0415 - needed by the program only

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kymas", type=int, default=10_000)
    parser.add_argument("--modules", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="number of the first cluster of this process")
    parser.add_argument("--elsewhere", type=Path, help="file with the kubeconfigs of the last clusters")
    parser.add_argument("--arriving", type=int, default=0, help="clusters that have no Kyma until `arrive`")
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
