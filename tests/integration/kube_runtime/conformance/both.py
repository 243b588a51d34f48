"""One conversation with two servers, the real one and the simulated one, whose answers must not differ.

What can't be the same is left out: uids, times, resource versions, tokens of pages. The order of causes, which Go
leaves to chance, doesn't count.
"""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from kube_runtime import KubeconfigPolicy
from kube_runtime.client.kubeconfig import connection_from_kubeconfig
from kube_runtime.client.tls import tls_context

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON = "application/json"
_VOLATILE = frozenset(
    {
        "uid",
        "time",
        "creationTimestamp",
        "deletionTimestamp",
        "resourceVersion",
        "continue",
        "lastTransitionTime",
        "storageVersionHash",
    }
)


@dataclass
class Server:
    name: str
    address: str
    session: aiohttp.ClientSession

    async def ask(self, method: str, path: str, body: object, content_type: str) -> tuple[int, Any]:
        """Send a request; return the code and the document."""
        data = None if body is None else io.BytesIO(json.dumps(body).encode())
        headers = {"Content-Type": content_type, "User-Agent": "conformance/1"}
        async with self.session.request(method, self.address + path, data=data, headers=headers) as answer:
            text = await answer.text()
        return answer.status, _document(text)

    async def lines(self, path: str, last: Callable[[Any], bool] = lambda _event: False) -> list[Any]:
        """Follow a watch to the last event that is expected, or to its end; return its events.

        The storage of a new kind may be read before it can be watched.
        """
        while True:
            events: list[Any] = []
            async with self.session.get(self.address + path) as answer:
                if answer.status == 429:
                    await asyncio.sleep(0.1)
                    continue
                assert answer.status == 200, await answer.text()
                async for line in answer.content:
                    events.append(json.loads(line))
                    if last(events[-1]):
                        if answer.connection is not None and answer.connection.transport is not None:
                            answer.connection.transport.abort()  # a TLS shutdown may outlive the event loop of the test
                        break
            return events


@dataclass
class Both:
    """The real server and the simulated one. `{ns}` in a path is a namespace that both have."""

    real: Server
    simulated: Server
    namespace: str

    async def ask(
        self,
        code: int,
        method: str,
        path: str,
        body: object = None,
        content_type: str = JSON,
        *,
        wording: bool = True,
    ) -> Any:
        """Ask both the same; return what they say. Fails unless that is the same, with the code that is expected.

        With `wording`, messages of 400 and 500 are compared too, which have no causes.
        """
        target = path.replace("{ns}", self.namespace)
        (real_code, real), (simulated_code, simulated) = await asyncio.gather(
            self.real.ask(method, target, body, content_type), self.simulated.ask(method, target, body, content_type)
        )
        assert (real_code, simulated_code) == (code, code), (real, simulated)
        wanted, found = comparable(real, wording=wording), comparable(simulated, wording=wording)
        assert found == wanted, f"simulated: {found}\nreal: {wanted}"
        return wanted

    async def watch(self, path: str, last: Callable[[Any], bool]) -> list[Any]:
        """Follow the same watch of both to its last event; return the events, which must not differ."""
        target = path.replace("{ns}", self.namespace)
        real, simulated = await asyncio.gather(self.real.lines(target, last), self.simulated.lines(target, last))
        assert described(simulated) == described(real), f"simulated: {described(simulated)}\nreal: {described(real)}"
        return described(real)

    async def own(self, method: str, path: str, body: object = None, content_type: str = JSON) -> tuple[Any, Any]:
        """Ask both and return what each said, for what is to be said back to each."""
        target = path.replace("{ns}", self.namespace)
        (_, real), (_, simulated) = await asyncio.gather(
            self.real.ask(method, target, body, content_type), self.simulated.ask(method, target, body, content_type)
        )
        return real, simulated


def comparable(document: Any, *, wording: bool = False) -> Any:
    """Return a document without what can't be the same."""
    if isinstance(document, list):
        return [comparable(each) for each in document]
    if not isinstance(document, dict):
        return document
    if document.get("kind") == "Status":
        return _status(document, wording=wording)
    return {key: _comparable_field(key, value) for key, value in document.items() if key not in _VOLATILE}


def described(events: list[Any]) -> list[Any]:
    """Return what a watch said of objects and of its end; bookmarks in between come when they come."""
    kept = []
    for event in events:
        metadata = event["object"].get("metadata") or {}
        if event["type"] != "BOOKMARK":
            kept.append((event["type"], comparable(event["object"])))
        elif metadata.get("annotations"):
            kept.append(("BOOKMARK", metadata["annotations"]))
    return kept


@asynccontextmanager
async def server_of(name: str, kubeconfig: Path) -> AsyncIterator[Server]:
    connection = await connection_from_kubeconfig(kubeconfig, KubeconfigPolicy.permissive())
    tls = True if connection.tls is None else tls_context(connection.tls)
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls), timeout=timeout) as session:
        yield Server(name, connection.server, session)
        await asyncio.sleep(0)


def _comparable_field(key: str, value: Any) -> Any:
    if key == "items" and isinstance(
        value, list
    ):  # whether the items of a built-in kind's list say what they are is left to the server
        return [{k: v for k, v in comparable(each).items() if k not in {"kind", "apiVersion"}} for each in value]
    if key == "managedFields" and isinstance(value, list):  # sorted by the second of the write
        return sorted(comparable(value), key=lambda each: (each["manager"], each.get("subresource", "")))
    return comparable(value)


def _status(document: dict[str, Any], *, wording: bool) -> dict[str, Any]:
    details = {key: value for key, value in (document.get("details") or {}).items() if key not in _VOLATILE}
    if "causes" in details:
        details["causes"] = sorted(details["causes"], key=lambda cause: (cause.get("field", ""), cause["message"]))
    kept = {"status": document["status"], "reason": document.get("reason"), "code": document.get("code")}
    if wording and document.get("code") in {400, 500}:
        kept["message"] = document["message"]
    return {**kept, "details": details}


def _document(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None  # a page for people, as the real server has for paths that it does not know
