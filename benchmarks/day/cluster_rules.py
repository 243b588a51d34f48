"""What the simulated clusters of a day do besides what an API server does: they observe, run workloads, and fail."""

import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TextIO

import msgspec

from benchmarks.day.documents import BAD
from benchmarks.day.watchers import FleetWatcher
from benchmarks.processes.fleet_documents import MERGE, THINGS, Document
from kube_simulation import Answer, ApiRequest, Refused, Rule, SimulatedCluster
from lifecycle_manager.skr.watcher import CANARY
from lifecycle_manager.skr_webhook.canary import ANNOTATION
from lifecycle_manager_api import State, Watched, WatchedGvk
from tests.takeover_from_go.played import status_of

READY = {"status": {"state": State.READY}}
Proceed = Callable[[], Awaitable[Answer]]
REFUSAL = 'admission webhook "features" denied the request: this version needs a feature that the cluster does not have'


@dataclass(frozen=True, slots=True)
class Awaited:
    """What a user's change comes to: an object with a text, or without one that is gone."""

    what: str
    name: str
    mark: bytes
    edited: float


@dataclass(eq=False)
class Observer(Rule):
    """Writes down when users' changes are in force in a cluster, and what others write there, a JSON line each."""

    cluster: str
    changes: TextIO
    writes: TextIO
    awaited: dict[str, Awaited] = field(default_factory=dict)

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        answer = await proceed()
        if not request.is_write or answer.code >= 300 or request.kind is None:
            return answer
        now = time.time()
        if request.manager != "user":
            line = {"at": now, "cluster": self.cluster, "verb": request.verb, "kind": request.kind.plural}
            line |= {"name": request.name, "subresource": request.subresource, "code": answer.code}
            self.writes.write(msgspec.json.encode(line).decode() + "\n")
        awaited = self.awaited.get(request.name) if request.kind.plural == "configmaps" else None
        if awaited is not None and self._is_reached(awaited, request):
            self.note(awaited)
        return answer

    def note(self, awaited: Awaited) -> None:
        """Write down that a change is in force."""
        del self.awaited[awaited.name]
        line = {"cluster": self.cluster, "what": awaited.what, "edited": awaited.edited, "in_force": time.time()}
        self.changes.write(msgspec.json.encode(line).decode() + "\n")

    def _is_reached(self, awaited: Awaited, request: ApiRequest) -> bool:
        if not awaited.mark:
            return request.verb == "delete"
        return request.verb != "delete" and awaited.mark in request.body


@dataclass(eq=False)
class StatusObserver(Observer):
    """Writes down when the status of the Kyma in a cluster has users' changes: a module that is Ready, or is gone.

    `was_ready`: the Kyma has been Ready before, so its cluster is not being set up.
    """

    was_ready: bool = False

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        answer = await proceed()
        is_kyma = request.kind is not None and request.kind.plural == "kymas" and request.subresource == "status"
        if is_kyma and request.is_write and not request.dry_run and answer.code < 300:
            status = answer.document().get("status") or {}
            self.was_ready = self.was_ready or status.get("state") == State.READY
            states = {each["name"]: each.get("state", "") for each in status.get("modules") or ()}
            for name, awaited in list(self.awaited.items()):
                if states.get(name) == (State.READY if awaited.mark else None):
                    self.note(awaited)
        return answer


@dataclass(eq=False)
class Workloads(Rule):
    """Runs Deployments, reports default CRs as ready, and mounts the Watcher's Secret."""

    cluster: SimulatedCluster
    watcher: FleetWatcher

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        answer = await proceed()
        if request.kind is None or request.method == "GET" or answer.code >= 300:
            return answer
        plural = request.kind.plural
        if plural == CANARY.kind.lower() + "s" and request.name == CANARY.name:
            self._canary(request)
        elif request.dry_run or request.subresource:
            pass
        elif plural == "deployments" and request.verb != "delete":
            self._run(request, answer.document())
        elif plural == "things" and request.verb in {"create", "apply"}:
            self.cluster.answer_to("PATCH", f"{THINGS}/default", READY, MERGE)
        elif plural == "samples" and request.verb == "create":
            self.cluster.answer_to("PATCH", f"{request.path}/{_name_in(answer)}/status", READY, MERGE)
        elif plural == "secrets" and (request.name or _name_in(answer)) == "skr-webhook-tls":
            if request.verb == "delete":
                self.watcher.stop()
            else:
                self.watcher.mount(answer.document()["data"])
        return answer

    def _canary(self, request: ApiRequest) -> None:
        metadata = msgspec.json.decode(request.body).get("metadata", {}) if request.body[:1] == b"{" else {}
        if challenge := (metadata.get("annotations") or {}).get(ANNOTATION, ""):
            if request.dry_run:
                self.watcher.answer(challenge)
            else:
                gvk, watched = (
                    WatchedGvk(version="v1", kind=CANARY.kind),
                    Watched(namespace=CANARY.namespace, name=CANARY.name),
                )
                self.watcher.report(gvk, watched, challenge=challenge)

    def _run(self, request: ApiRequest, live: Document) -> None:
        if live.get("status", {}).get("observedGeneration") != live["metadata"]["generation"]:
            path = f"{request.path.partition('?')[0]}/status"
            self.cluster.answer_to("PATCH", path, {"status": status_of(live)}, MERGE)


class WithoutFeature(Rule):
    """Refuses the versions that do not run in this cluster, as a webhook there would."""

    _bad = re.compile(rb"module-\w+-\d" + re.escape(BAD.encode()))

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        is_module = request.is_write and request.kind is not None and request.kind.plural == "configmaps"
        if is_module and self._bad.search(request.body):
            raise Refused(403, "Forbidden", REFUSAL)
        return await proceed()


def _name_in(answer: Answer) -> str:
    return str(answer.document()["metadata"]["name"])
