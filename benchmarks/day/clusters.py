"""The simulated user clusters of a day with their users and Watchers, controlled by lines of JSON on the input.

A cluster is created when it joins. What users' changes come to is written to `changes.jsonl` in a folder, what is
written to the clusters by others to `writes.jsonl`. Run by `benchmarks.day`, through `benchmarks.processes.fleet`.
"""

import argparse
import base64
import gc
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import uvloop

from benchmarks.day.cluster_rules import Awaited, Observer, WithoutFeature, Workloads
from benchmarks.day.documents import OPTIONAL, region_of
from benchmarks.day.watchers import FleetWatcher
from benchmarks.processes.fleet_documents import API, MERGE, THINGS, Document
from benchmarks.processes.output import obey, write_line
from benchmarks.processes.server_tls import server_tls
from kube_simulation import Delay, NeverAnswer, Rule, SimulatedCluster, Simulation, serve_simulation
from lifecycle_manager_api import Watched, WatchedGvk, names

KYMA_CR = f"{API}/{names.SKR_NAMESPACE}/kymas/{names.DEFAULT_KYMA_NAME}"
KYMA_GVK = WatchedGvk(group=names.GROUP, version="v1beta2", kind="Kyma")
THING_GVK = WatchedGvk(group="example.com", version="v1", kind="Thing")
MODULE_SHARE = 0.2
"""The share of changes that add or remove a module; the others configure one."""
UNKNOWN = "module-of-no-catalog"
LARGE, LARGE_NUMBERS = 4, 20_000


@dataclass(eq=False)
class UserCluster:
    """A cluster with what belongs to it."""

    number: int
    cluster: SimulatedCluster
    watcher: FleetWatcher
    observer: Observer
    has_optional: bool = False
    outage: Rule | None = None
    is_hostile: bool = False
    edits: int = 0

    def live(self, path: str) -> Document | None:
        """Return an object, None where there is none yet."""
        answer = self.cluster.answer_to("GET", path)
        return answer.document() if answer.code == 200 else None

    def patch(self, path: str, current: Document, spec: Document, gvk: WatchedGvk) -> float:
        """Change an object as a user, and have the Watcher report it."""
        at = time.time()
        answer = self.cluster.answer_to("PATCH", f"{path}?fieldManager=user", {"spec": spec}, MERGE)
        assert answer.code == 200, answer.body
        metadata = current["metadata"]
        watched = Watched(namespace=metadata["namespace"], name=metadata["name"])
        self.watcher.report(gvk, watched, uid=metadata["uid"], version=metadata["resourceVersion"])
        return at


@dataclass(eq=False)
class DayClusters:
    """All clusters, and the commands on them."""

    simulation: Simulation
    ca: bytes
    port: int
    chance: random.Random
    changes: TextIO
    writes: TextIO
    clusters: dict[str, UserCluster] = field(default_factory=dict)
    optional: str = OPTIONAL
    """The module that users add and remove."""
    module_share: float = MODULE_SHARE

    def _join(self, name: str, number: int) -> Document:
        """Create a cluster, and return its kubeconfig."""
        cluster = self.simulation.cluster(name)
        self.clusters[name] = user = self.user_of(number, cluster)
        for rule in self.rules_of(user):
            cluster.add_rule(rule)
        config = cluster.kubeconfig
        config["clusters"][0]["cluster"]["certificate-authority-data"] = base64.b64encode(self.ca).decode()
        return {"kubeconfig": config}

    def user_of(self, number: int, cluster: SimulatedCluster) -> UserCluster:
        """Return a cluster with its Watcher, and who observes it."""
        return UserCluster(number, cluster, FleetWatcher(self.port), Observer(cluster.name, self.changes, self.writes))

    def rules_of(self, user: UserCluster) -> Iterator[Rule]:
        """Yield what a cluster does besides what an API server does."""
        if user.number % 3 == 1:
            yield WithoutFeature()
        yield user.observer
        yield Workloads(user.cluster, user.watcher)

    def _remove(self, name: str) -> Document:
        """Remove a cluster that has left; return which objects of modules were left behind."""
        left = self.clusters.pop(name)
        left.watcher.stop()
        remaining = [each["metadata"]["name"] for each in left.cluster.objects() if each["kind"] == "ConfigMap"]
        self.simulation.remove(name)
        return {"remaining": remaining}

    def _edit(self, mistake: bool = False) -> Document:
        """Have a user somewhere make a change, where none is under way."""
        idle = [each for each in self.clusters.values() if not each.observer.awaited and not each.is_hostile]
        for _ in range(20) if idle else ():
            chosen = self.chance.choice(idle)
            if mistake:
                done = self._add_unknown(chosen)
            elif self.chance.random() < self.module_share:
                done = self._toggle(chosen)
            else:
                done = self._configure(chosen)
            if done:
                return {"edited": chosen.cluster.name}
        return {"edited": ""}

    def _configure(self, user: UserCluster) -> bool:
        path = f"{THINGS}/default"
        if (current := user.live(path)) is None:
            return False
        user.edits += 1
        mark = f"text {user.edits} of {user.cluster.name}."
        at = user.patch(path, current, {"text": mark}, THING_GVK)
        user.observer.awaited["thing-default"] = Awaited("configure", "thing-default", mark.encode(), at)
        return True

    def _toggle(self, user: UserCluster) -> bool:
        if (current := user.live(KYMA_CR)) is None or user.outage is not None:
            return False
        wanted = not user.has_optional
        others = [each for each in current["spec"].get("modules", []) if each["name"] != self.optional]
        modules = [*others, {"name": self.optional, "managed": True}] if wanted else others
        mark = self.optional.encode() if wanted else b""
        at = user.patch(KYMA_CR, current, {"modules": modules}, KYMA_GVK)
        what = "add module" if wanted else "remove module"
        user.observer.awaited[self.optional] = Awaited(what, self.optional, mark, at)
        user.has_optional = wanted
        return True

    def _add_unknown(self, user: UserCluster) -> bool:
        if (current := user.live(KYMA_CR)) is None or user.outage is not None:
            return False
        modules = [*current["spec"].get("modules", []), {"name": UNKNOWN, "managed": True}]
        user.patch(KYMA_CR, current, {"modules": modules}, KYMA_GVK)
        return True

    def _correct(self, name: str) -> Document:
        """Have a user take a mistake back."""
        user = self.clusters.get(name)
        if user is not None and (current := user.live(KYMA_CR)) is not None:
            modules = [each for each in current["spec"]["modules"] if each["name"] != UNKNOWN]
            user.patch(KYMA_CR, current, {"modules": modules}, KYMA_GVK)
        return {"corrected": name}

    def _cut_off(self, region: str) -> Document:
        """Let the clusters of a region answer nothing, and their Watchers reach nobody."""
        cut = [each for each in self.clusters.values() if region_of(each.number) == region and not each.is_hostile]
        for each in cut:
            each.outage = NeverAnswer()
            each.cluster.rules = (each.outage, *each.cluster.rules)
            each.cluster.break_watches()
            each.watcher.is_cut_off = True
        return {"cut_off": sorted(each.cluster.name for each in cut)}

    def _reconnect(self) -> Document:
        """Let all clusters answer again."""
        for each in self.clusters.values():
            if isinstance(each.outage, NeverAnswer):
                each.cluster.remove_rule(each.outage)
                each.outage.released.set()
                each.outage, each.watcher.is_cut_off = None, False
        return {}

    def _turn_hostile(self, seconds: float) -> Document:
        """Let a cluster answer slowly, and have large Module CRs."""
        victim = next(each for each in self.clusters.values() if each.live(f"{THINGS}/default"))
        victim.is_hostile = True
        for number in range(LARGE):
            document = {
                "apiVersion": "example.com/v1",
                "kind": "Thing",
                "metadata": {"name": f"large-{number}", "namespace": names.SKR_NAMESPACE},
                "spec": {"numbers": [each * 0.37 for each in range(LARGE_NUMBERS)]},
            }
            answer = victim.cluster.answer_to("POST", f"{THINGS}?fieldManager=user", document)
            assert answer.code == 201, answer.body
        victim.cluster.add_rule(Delay(lambda request: request.verb != "watch", seconds=seconds))
        return {"hostile": victim.cluster.name}

    def _attack(self) -> Document:
        """Edit a large Module CR of each hostile cluster."""
        for each in (each for each in self.clusters.values() if each.is_hostile):
            each.edits += 1
            path = f"{THINGS}/large-{each.edits % LARGE}"
            if (current := each.live(path)) is not None:
                each.patch(path, current, {"text": f"{each.edits}"}, THING_GVK)
        return {}

    def _pending(self) -> Document:
        """Return the changes that are not in force, with the clusters that can't be reached or are hostile."""
        found = [
            {"cluster": name, "what": awaited.what, "edited": awaited.edited, "cut_off": each.outage is not None}
            for name, each in self.clusters.items()
            for awaited in each.observer.awaited.values()
        ]
        return {"pending": found}

    def _wrong(self, kymas: dict[str, list[str]]) -> Document:
        """Return which clusters lack the objects of modules that they should have, or have others."""
        wrong = {}
        for name, modules in kymas.items():
            if (user := self.clusters.get(name)) is None or user.outage is not None:
                continue
            found = {each["metadata"]["name"] for each in user.cluster.objects() if each["kind"] == "ConfigMap"}
            found = {each for each in found if each.startswith("module-")}
            if found != set(modules):
                wrong[name] = {"missing": sorted(set(modules) - found), "unexpected": sorted(found - set(modules))}
        return {"wrong": wrong}

    def _watchers(self) -> Document:
        """Return how many events were accepted and refused."""
        return {
            "accepted": sum(each.watcher.accepted for each in self.clusters.values()),
            "refused": sum(each.watcher.refused for each in self.clusters.values()),
        }


async def serve(options: argparse.Namespace, kind: Callable[..., DayClusters] = DayClusters) -> None:
    """Serve clusters of a kind and execute commands until the input ends."""
    tls, ca = server_tls()
    changes, writes = ((options.folder / f"{name}.jsonl").open("w", buffering=1) for name in ("changes", "writes"))
    async with serve_simulation(history=200, records=0, tls=tls) as simulation:
        chance = random.Random(options.seed)  # noqa: S311 - the same day each time
        clusters = kind(simulation, ca, options.port, chance, changes, writes)
        gc.freeze()
        gc.set_threshold(200_000, 20, 100)  # a full collection takes seconds here, and would delay the answers
        write_line({"kubeconfig": {}, "kubeconfigs": []})
        await obey(clusters)


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Return what reads the command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--folder", type=Path, required=True, help="where the observations are written")
    parser.add_argument("--port", type=int, required=True, help="of the event endpoint")
    parser.add_argument("--seed", type=int, default=1)
    return parser


if __name__ == "__main__":
    uvloop.run(serve(parser_of(__doc__).parse_args()))
