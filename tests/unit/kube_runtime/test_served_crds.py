"""How long a CRD is waited for, and that one which is served stays applied although a short name is taken meanwhile."""

import weakref
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kube_runtime import Applier, Client, ClusterUnreachable, parse_objects
from kube_runtime.apply import established
from kube_runtime.apply.established import wait_established
from tests.integration.kube_runtime.things import THINGS, as_text, definition, thing
from tests.kinds import CRDS, NAMESPACES
from tests.unit.kube_runtime.test_objects_of_refused_kinds import names_of


@pytest.mark.parametrize("kind", ["", "Other"], ids=["short-name", "kind"])
async def test_crd_that_is_served_has_failed_only_where_its_kind_is_not_its_own(client: Client, kind: str) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": "shop"}}, field_manager="somebody")
    objects = parse_objects(as_text(definition(), thing("one", "shop")))
    first = await Applier(client, field_manager="test").apply(objects)
    crd = await client.get(CRDS, definition()["metadata"]["name"])
    taken = {"type": "NamesAccepted", "status": "False", "reason": "ShortNamesConflict", "message": "it is in use"}
    conditions = [each for each in crd["status"]["conditions"] if each["type"] != "NamesAccepted"]
    accepted = crd["status"]["acceptedNames"] | ({"kind": kind} if kind else {})
    status = {"status": {**crd["status"], "acceptedNames": accepted, "conditions": [*conditions, taken]}}
    await client.merge_patch(CRDS, crd["metadata"]["name"], status, subresource="status")
    result = await Applier(client, field_manager="test").apply(objects, first.inventory)
    assert [each.error is None for each in result.outcomes] == ([False, False] if kind else [True, True])
    assert await names_of(client, THINGS) == ["one"]


class EndingWatches:
    """A cluster that ends each watch at once, and serves the CRD after so many."""

    def __init__(self, served_after: float) -> None:
        self.watches, self.served_after = 0, served_after

    async def watch(self, *_: Any, **__: Any) -> AsyncGenerator[Any, None]:
        self.watches += 1
        for _event in range(0):
            yield None

    async def get(self, *_: Any) -> dict[str, Any]:
        conditions = [{"type": "Established", "status": "True"}] if self.watches >= self.served_after else []
        return {**definition(), "metadata": {**definition()["metadata"], "resourceVersion": "1"}} | {
            "status": {"conditions": conditions}
        }


async def waited_for(served_after: float) -> EndingWatches:
    server = EndingWatches(served_after)
    await wait_established(cast("Client", server), CRDS, await server.get())
    return server


async def test_server_that_ends_each_watch_at_once_is_asked_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(established, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(established, "ESTABLISHED_SECONDS", 0.3)
    assert (await waited_for(1)).watches == 1
    with pytest.raises(ClusterUnreachable, match="was not established"):
        await waited_for(20)


class Crd(dict[str, Any]):
    """One that tells whether it is kept."""


class LargeCrds:
    """A cluster that shows a CRD again and again before it is served."""

    def __init__(self) -> None:
        self.shown: list[weakref.ref[Crd]] = []
        self.kept: list[int] = []

    async def watch(self, *_: Any, **__: Any) -> AsyncGenerator[Any, None]:
        self.kept.append(sum(each() is not None for each in self.shown))
        conditions = [{"type": "Established", "status": str(len(self.shown) == 3)}]
        metadata = {**definition()["metadata"], "resourceVersion": str(len(self.shown))}
        crd = Crd({**definition(), "metadata": metadata, "status": {"conditions": conditions}})
        self.shown.append(weakref.ref(crd))
        yield SimpleNamespace(object=crd)


async def test_crd_is_not_kept_while_the_next_version_is_waited_for() -> None:
    server = LargeCrds()
    first = {"metadata": {"name": "things.things.example.com", "resourceVersion": "0"}}
    found = await wait_established(cast("Client", server), CRDS, first)
    assert found["metadata"]["resourceVersion"] == "3"
    assert server.kept == [0, 0, 0, 0]
