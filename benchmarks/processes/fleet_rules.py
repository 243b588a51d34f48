"""What is counted, reported and answered in a simulated fleet besides what its API servers do."""

import time
from collections import Counter
from collections.abc import Awaitable, Callable

import msgspec

from benchmarks.processes.fleet_documents import CONFIGURED, MERGE, THINGS, Document
from benchmarks.processes.output import write_line
from kube_simulation import Answer, ApiRequest, Rule, SimulatedCluster
from lifecycle_manager_api import names


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
