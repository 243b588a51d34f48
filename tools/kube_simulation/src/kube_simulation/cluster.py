"""One simulated cluster: its objects, its faults, and its kubeconfig."""

import base64
import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from kube_simulation.builtin import BUILTIN_KINDS, NAMESPACE
from kube_simulation.discovery import discovery
from kube_simulation.kinds import Kind
from kube_simulation.lifecycle import Lifecycle
from kube_simulation.reading import get, list_objects
from kube_simulation.records import Records, RequestRecord
from kube_simulation.refusals import Refused, method_not_allowed, unknown_path
from kube_simulation.requests import Answer, ApiRequest, address_of, request_of
from kube_simulation.rules import Rule
from kube_simulation.store import Storage, Store, StoredChange
from kube_simulation.watching import Watch, Watches
from kube_simulation.writing import StoreWriter

_WITH_A_NAME = frozenset({"get", "watch", "update", "patch", "apply", "delete"})
_WITHOUT_A_NAME = frozenset({"list", "watch", "create"})
_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_BUILTIN: dict[tuple[str, str, str], Kind] = {(kind.group, kind.version, kind.plural): kind for kind in BUILTIN_KINDS}
_BUILTIN_BY_STORAGE: dict[Storage, Kind] = {kind.storage: kind for kind in BUILTIN_KINDS}


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What all clusters of a simulation have in common.

    - `history`: how many writes a cluster remembers, for watches and pages
    - `bookmark_seconds`: how often a watch is sent a bookmark
    - `clock`: the time that objects carry
    """

    history: int = 1_000
    bookmark_seconds: float = 60.0
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)


class _State:
    """The parts of a cluster, made at its first request."""

    __slots__ = ("changes", "lifecycle", "store", "watches", "writer")

    def __init__(
        self,
        name: str,
        settings: ClusterSettings,
        kind_of: Callable[[Storage], Kind | None],
        kind_named: Callable[[str, str], Kind | None],
    ) -> None:
        self.store = Store(settings.history)
        self.writer = StoreWriter(name, self.store, settings.clock)
        self.lifecycle = Lifecycle(self.store, self.writer, kind_of, kind_named)
        self.watches = Watches()
        self.changes: list[StoredChange] = []


class SimulatedCluster:
    """A cluster by name. It costs next to nothing until its first request."""

    __slots__ = ("_records", "_settings", "_state", "name", "rules", "server")

    def __init__(self, name: str, server: str, settings: ClusterSettings, records: Records) -> None:
        self.name = name
        self.server = server
        self.rules: tuple[Rule, ...] = ()
        self._settings = settings
        self._records = records
        self._state: _State | None = None

    @property
    def kubeconfig(self) -> dict[str, Any]:
        """A kubeconfig for the cluster, as a document. It uses plain HTTP, which a policy has to allow."""
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": self.name,
            "contexts": [{"name": self.name, "context": {"cluster": self.name, "user": "anybody"}}],
            "clusters": [{"name": self.name, "cluster": {"server": self.server}}],
            "users": [{"name": "anybody", "user": {}}],
        }

    @property
    def version(self) -> int:
        """The newest resource version."""
        return self._opened.store.version

    @property
    def open_watches(self) -> int:
        """How many watches are open."""
        return 0 if self._state is None else len(self._state.watches)

    def add_rule(self, rule: Rule) -> None:
        """Add a rule."""
        self.rules = (*self.rules, rule)

    def remove_rule(self, rule: Rule) -> None:
        """Remove a rule; watches then report what it hid."""
        self.rules = tuple(each for each in self.rules if each is not rule)
        if self._state is not None:
            self._state.watches.notify()

    @contextmanager
    def ruled_by(self, *rules: Rule) -> Iterator[None]:
        """Add rules within a block."""
        for rule in rules:
            self.add_rule(rule)
        try:
            yield
        finally:
            for rule in rules:
                self.remove_rule(rule)

    def requests(
        self, matches: Callable[[RequestRecord], bool] = lambda _: True, *, since: int = 0
    ) -> list[RequestRecord]:
        """Return the last requests to this cluster that match, oldest first."""
        return self._records.those(matches, cluster=self.name, since=since)

    def compact(self) -> None:
        """Forget the past: watches and pages of older versions get 410."""
        self._opened.store.compact()
        self._opened.watches.notify()

    def end_watches(self) -> None:
        """End every watch, as a server does that goes down."""
        if self._state is not None:
            self._state.watches.end()

    def break_watches(self) -> None:
        """Break the connection of every watch, as a network does."""
        if self._state is not None:
            self._state.watches.end(abruptly=True)

    def objects(self) -> list[dict[str, Any]]:
        """Return all objects of the cluster, each a copy, by kind, namespace and name."""
        store = self._opened.store
        return [stored.document() for storage in sorted(store.storages()) for stored in store.table(storage).in_order()]

    def changes(self) -> list[StoredChange]:
        """Return the writes that the cluster remembers, oldest first."""
        store = self._opened.store
        return store.changes_after(store.oldest)

    def create(self, *objects: dict[str, Any]) -> None:
        """Create objects at once, without a socket. Raises Refused for one that is not valid."""
        for document in objects:
            kind = self._kind_of_object(document)
            root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
            namespace = f"/namespaces/{document['metadata'].get('namespace', 'default')}" if kind.namespaced else ""
            answer = self.answer_to("POST", f"{root}{namespace}/{kind.plural}", document)
            if answer.code >= 300:
                refused = answer.document()
                raise Refused(answer.code, refused.get("reason", ""), refused["message"], refused.get("details"))

    def restore(self, objects: Iterable[dict[str, Any]]) -> None:
        """Store objects without any check: for a cluster that starts with some."""
        state = self._opened
        for document in objects:
            kind = self._kind_of_object(document)
            metadata = dict(document["metadata"])
            key = (metadata.get("namespace", ""), metadata["name"])
            state.store.write(kind.storage, key, document["apiVersion"], {**document, "metadata": metadata})
            state.lifecycle.settle(state.changes)

    def roll_back(self, objects: Iterable[dict[str, Any]]) -> None:
        """Begin anew with these objects, as an API server whose etcd was restored from a backup; watches break."""
        watches = self._opened.watches
        self._state = None
        self.restore(objects)
        watches.end(abruptly=True)

    def answer_to(
        self, method: str, target: str, body: object = None, content_type: str = "application/json"
    ) -> Answer:
        """Answer a request of a test at once: without a socket, rules or record."""
        encoded = b"" if body is None else msgspec.json.encode(body)
        return self.answer(request_of(self.name, method, target, encoded, content_type))

    async def respond(self, request: ApiRequest) -> Answer:
        """Answer a request by the rules, and record it. Raises ConnectionDropped where a rule does."""
        self._address(request)
        try:
            if not self.rules:
                answer = self.answer(request)
            else:
                answer = await self._ruled(request, iter(self.rules))
        except Refused as refused:
            answer = Answer.refusing(refused)
        except BaseException:
            self._records.add(request, 0)
            raise
        self._records.add(request, answer.code)
        return answer

    def answer(self, request: ApiRequest) -> Answer:
        """Answer a request at once, without any rule."""
        state = self._opened
        if request.kind is None:
            self._address(request)
        try:
            return self._answer(state, request)
        except Refused as refused:
            return Answer.refusing(refused)
        finally:
            if state.changes:
                state.lifecycle.settle(state.changes)

    async def _ruled(self, request: ApiRequest, rules: Iterator[Rule]) -> Answer:
        rule = next(rules, None)
        if rule is not None:
            return await rule.around(request, lambda: self._ruled(request, rules))
        limits = [limit for each in self.rules if (limit := each.horizon(request)) is not None]
        request.until = min(limits) if limits else None
        return self.answer(request)

    def _address(self, request: ApiRequest) -> None:
        """Note in a request which kind and object it is about."""
        address = address_of(request.segments)
        if address is None or not address.plural:
            return
        custom = self._opened.lifecycle.custom
        key = (address.group, address.version, address.plural)
        request.kind = _BUILTIN.get(key) or custom.get(key)
        request.namespace, request.name = address.namespace, address.name
        request.subresource = address.subresource

    def _answer(self, state: _State, request: ApiRequest) -> Answer:
        kind = request.kind
        if kind is None:
            if request.method == "POST" and (review := REVIEWS.get(request.segments)) is not None:
                return Answer(201, msgspec.json.encode(review))
            found = discovery(request.segments, self._kinds()) if request.method == "GET" else None
            if found is None:
                raise unknown_path()
            return found
        _check_path(kind, request)
        if request.method == "GET":
            return self._read(state, kind, request)
        return self._write(state, kind, request)

    def _read(self, state: _State, kind: Kind, request: ApiRequest) -> Answer:
        if request.verb == "watch":
            return Answer(200, watch=self._watch(state, kind, request).chunks())
        return get(state.store, kind, request) if request.name else list_objects(state.store, kind, request)

    def _write(self, state: _State, kind: Kind, request: ApiRequest) -> Answer:
        if request.verb == "create":
            return (
                _token(request, self._settings.clock())
                if request.subresource == "token"
                else state.writer.create(kind, request)
            )
        acts = {
            "update": state.writer.update,
            "patch": state.writer.patch,
            "apply": state.writer.apply,
            "delete": state.writer.delete,
        }
        return acts[request.verb](kind, request)

    def _watch(self, state: _State, kind: Kind, request: ApiRequest) -> Watch:
        since = state.lifecycle.served_since.get(kind.storage, 0)
        seconds = self._settings.bookmark_seconds
        return Watch(state.store, state.watches, lambda: self.rules, kind, request, seconds, since)

    def _kinds(self) -> Iterable[Kind]:
        return itertools.chain(BUILTIN_KINDS, self._opened.lifecycle.custom.values())

    def _kind_of_object(self, document: dict[str, Any]) -> Kind:
        kind = self._kind_named(document["apiVersion"], document["kind"])
        if kind is None:
            raise ValueError(f"{document['kind']} of {document['apiVersion']} is not served")
        return kind

    def _kind_named(self, api_version: str, kind: str) -> Kind | None:
        return next((each for each in self._kinds() if (each.api_version, each.kind) == (api_version, kind)), None)

    def _kind_of(self, storage: Storage) -> Kind | None:
        found = _BUILTIN_BY_STORAGE.get(storage)
        if found is not None:
            return found
        return next((kind for kind in self._opened.lifecycle.custom.values() if kind.storage == storage), None)

    @property
    def _opened(self) -> _State:
        """The state, made at the first use."""
        if self._state is None:
            self._state = state = _State(self.name, self._settings, self._kind_of, self._kind_named)
            for namespace in _NAMESPACES:
                document = state.writer.initial_namespace(namespace)
                state.store.write(NAMESPACE.storage, ("", namespace), NAMESPACE.api_version, document)
            state.store.on_change = self._note
        return self._state

    def _note(self, change: StoredChange) -> None:
        state = self._opened
        state.changes.append(change)
        state.watches.notify(change.storage)


def _check_path(kind: Kind, request: ApiRequest) -> None:
    """Refuse paths that belong to no resource."""
    if request.subresource and request.subresource not in {*(["status"] if kind.status else []), *kind.subresources}:
        raise unknown_path()
    if request.namespace and not kind.namespaced:
        raise unknown_path()
    if kind.namespaced and request.name and not request.namespace:
        raise unknown_path()
    allowed = _WITH_A_NAME if request.name else _WITHOUT_A_NAME
    if request.verb not in allowed and request.subresource != "token":
        raise method_not_allowed()
    if kind.namespaced and not request.namespace and request.verb not in {"list", "watch"}:
        raise method_not_allowed()


REVIEWS: dict[tuple[str, ...], dict[str, Any]] = {
    ("apis", "authentication.k8s.io", "v1", "selfsubjectreviews"): {
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "status": {"userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]}},
    },
    ("apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"): {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "status": {"allowed": True},
    },
}
"""The answers to reviews: everybody is an administrator."""


class _TokenRequestSpec(msgspec.Struct):
    seconds: int = msgspec.field(default=3600, name="expirationSeconds")


class _TokenRequest(msgspec.Struct):
    spec: _TokenRequestSpec = msgspec.field(default_factory=_TokenRequestSpec)


def _token(request: ApiRequest, now: datetime) -> Answer:
    """Return a token that names its user and when it expires; its signature is none."""
    expires = now + timedelta(seconds=msgspec.json.decode(request.body, type=_TokenRequest).spec.seconds)
    subject = f"system:serviceaccount:{request.namespace}:{request.name}"
    claims = {"sub": subject, "iat": int(now.timestamp()), "exp": int(expires.timestamp())}
    parts = (base64.urlsafe_b64encode(msgspec.json.encode(each)).decode().rstrip("=") for each in ({}, claims))
    status = {"token": f"{'.'.join(parts)}.simulated", "expirationTimestamp": expires.isoformat()}
    document = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "status": status}
    return Answer(201, msgspec.json.encode(document))
