"""An informer shows this process's own writes until its stream reaches them, and not a moment longer."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, cast

import looptime
from hypothesis import settings
from hypothesis import strategies as some
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kube_runtime import Backoff, Client, Gone, Index, Informer, ObjectKey, ObjectList
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually

NAMES = ("a", "b", "c")
BY_VALUE: Index[dict[str, Any]] = Index("value", lambda item: [item["value"]])
Item = dict[str, Any]


def key(name: str) -> ObjectKey:
    return ObjectKey("", name)


class Server:
    """Objects with versions, as etcd counts them, and one watch that reports what a test lets through."""

    def __init__(self) -> None:
        self.revision = 1
        self.objects: dict[str, Item] = {}
        self.events: list[tuple[str, Item]] = []
        self.lines: asyncio.Queue[list[bytes] | None] = asyncio.Queue()
        self._uids = 0

    def write(self, name: str, value: str) -> Item:
        """Create or update an object and return the answer."""
        self.revision += 1
        known = self.objects.get(name)
        if known is None:
            self._uids += 1
        uid = known["metadata"]["uid"] if known is not None else f"uid-{self._uids}"
        item = {"metadata": {"name": name, "uid": uid, "resourceVersion": str(self.revision)}, "value": value}
        self.objects[name] = item
        self.events.append(("MODIFIED" if known is not None else "ADDED", item))
        return item

    def delete(self, name: str) -> Item:
        """Delete an object; return its last state, as of before."""
        self.revision += 1
        last = self.objects.pop(name)
        gone = {**last, "metadata": {**last["metadata"], "resourceVersion": str(self.revision)}}
        self.events.append(("DELETED", gone))
        return last

    def send(self, kind: str, item: Item) -> None:
        self.lines.put_nowait([json.dumps({"type": kind, "object": item}).encode()])

    async def pages(self, _resource: object, *_: object, **__: object) -> AsyncIterator[ObjectList[Item]]:
        self.events.clear()
        yield ObjectList(items=tuple(self.objects.values()), resource_version=str(self.revision))

    async def watch_lines(self, _resource: object, *_: object, **__: object) -> AsyncGenerator[list[bytes], None]:
        while (lines := await self.lines.get()) is not None:
            yield lines
        raise Gone(410, "Expired", "too old")


def version(item: Item) -> int:
    return int(item["metadata"]["resourceVersion"])


class OwnWritesMachine(RuleBasedStateMachine):
    """Plays any order of writes, answers, events, lists, and a restored etcd, against the simplest model.

    The model knows all answers that have arrived, the objects that the stream has shown, and its position.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loop = looptime.new_event_loop()
        self.server = Server()
        self.backups: list[tuple[int, dict[str, Item]]] = []
        self.outstanding: list[Item] = []
        self.answered: list[Item] = []
        self.shown: dict[str, Item] = {}
        self.position = 0

    def run(self, act: Any) -> Any:
        return self.loop.run_until_complete(act)

    @initialize()
    def start(self) -> None:
        async def start() -> None:
            backoff = Backoff(base=0.01, max=0.01)
            self.informer = Informer(
                cast("Client", self.server), CONFIG_MAPS, indexes=[BY_VALUE], backoff=backoff, page_size=0
            )
            self.following = asyncio.create_task(self.informer.run())
            await asyncio.sleep(100)

        self.run(start())
        self._listed()

    def _listed(self) -> None:
        if self.server.revision < self.position:  # the past
            self.answered.clear()
        self.position = self.server.revision
        self.shown = dict(self.server.objects)

    @rule(name=some.sampled_from(NAMES), value=some.sampled_from("xy"))
    def write(self, name: str, value: str) -> None:
        self.outstanding.append(self.server.write(name, value))

    @rule(name=some.sampled_from(NAMES), value=some.sampled_from("xy"))
    def somebody_else_writes(self, name: str, value: str) -> None:
        self.server.write(name, value)

    @precondition(lambda self: self.server.objects)
    @rule(data=some.data())
    def somebody_else_deletes(self, data: some.DataObject) -> None:
        self.server.delete(data.draw(some.sampled_from(sorted(self.server.objects))))

    @precondition(lambda self: self.outstanding)
    @rule(data=some.data())
    def answer_arrives(self, data: some.DataObject) -> None:
        answer = self.outstanding.pop(data.draw(some.integers(0, len(self.outstanding) - 1)))
        self.informer.wrote(answer)
        self.answered.append(answer)

    @precondition(lambda self: self.server.events)
    @rule()
    def event_arrives(self) -> None:
        kind, item = self.server.events.pop(0)
        self.server.send(kind, item)
        self.run(asyncio.sleep(1))
        self.position = version(item)
        if kind == "DELETED":
            self.shown.pop(item["metadata"]["name"], None)
        else:
            self.shown[item["metadata"]["name"]] = item

    @precondition(lambda self: not self.server.events)
    @rule()
    def bookmark_arrives(self) -> None:
        self.server.revision += 1
        self.server.send("BOOKMARK", {"metadata": {"resourceVersion": str(self.server.revision)}})
        self.run(asyncio.sleep(1))
        self.position = self.server.revision

    @rule()
    def everything_is_listed_again(self) -> None:
        self.server.lines.put_nowait(None)
        self.run(asyncio.sleep(100))
        self._listed()

    @rule()
    def etcd_is_backed_up(self) -> None:
        self.backups.append((self.server.revision, dict(self.server.objects)))

    @precondition(lambda self: self.backups)
    @rule(data=some.data(), is_raised=some.booleans())
    def etcd_is_restored(self, data: some.DataObject, *, is_raised: bool) -> None:
        """Restore a backup; Kubernetes documents to raise the revisions beyond all that was seen."""
        revision, objects = data.draw(some.sampled_from(self.backups))
        self.server.revision = self.server.revision + 1000 if is_raised else revision
        self.server.objects = dict(objects)
        self.backups = [backup for backup in self.backups if backup[0] <= self.server.revision]
        self.outstanding.clear()
        self.everything_is_listed_again()

    def expected(self, name: str) -> Item | None:
        newer = [each for each in self.answered if each["metadata"]["name"] == name and version(each) > self.position]
        return max(newer, key=version, default=self.shown.get(name))

    @invariant()
    def view_is_the_stream_with_own_writes_that_it_has_not_reached(self) -> None:
        if not self.position:
            return
        newest = {name: item for name in NAMES if (item := self.expected(name)) is not None}
        for name in NAMES:
            assert self.informer.get(key(name)) == newest.get(name)
        assert {item["metadata"]["name"]: item for item in self.informer.list()} == newest
        for value in "xy":
            found = {item["metadata"]["name"] for item in self.informer.by_index(BY_VALUE, value)}
            assert found == {name for name, item in newest.items() if item["value"] == value}

    @invariant()
    def cache_is_the_stream(self) -> None:
        if self.position:
            assert {item["metadata"]["name"]: item for item in self.informer.cache.list()} == self.shown

    def teardown(self) -> None:
        if self.position:
            self.following.cancel()
            self.run(asyncio.wait([self.following]))
        self.loop.close()


TestAnyOrderOfAnswersAndEvents = OwnWritesMachine.TestCase
TestAnyOrderOfAnswersAndEvents.settings = settings(stateful_step_count=40)


class Following:
    """An informer of a server, whose events arrive when a test sends them."""

    def __init__(self) -> None:
        self.server = Server()
        self.informer = Informer(cast("Client", self.server), CONFIG_MAPS)

    async def __aenter__(self) -> "Following":
        self._task = asyncio.create_task(self.informer.run())
        await self.informer.wait_synced(60)
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def catch_up(self) -> None:
        for kind, item in self.server.events:
            self.server.send(kind, item)
        self.server.events.clear()
        for _ in range(5):
            await asyncio.sleep(0)


async def test_handler_of_a_deletion_does_not_see_the_own_write_before_it() -> None:
    async with Following() as following:
        following.informer.wrote(following.server.write("a", "x"))
        following.server.delete("a")
        seen: list[Item | None] = []
        following.informer.on_change(lambda _: seen.append(following.informer.get(key("a"))))
        await following.catch_up()

        assert seen[-1] is None


async def test_event_of_an_own_write_is_known_as_such() -> None:
    async with Following() as following:
        own: list[bool] = []
        following.informer.on_change(lambda change: own.append(following.informer.is_own_write(change.new or {})))
        following.informer.wrote(following.server.write("a", "x"))
        await following.catch_up()
        following.server.write("a", "y")
        await following.catch_up()

        assert own == [True, False]


async def test_object_that_was_confirmed_deleted_is_hidden_until_it_is_made_again() -> None:
    async with Following() as following:
        following.informer.wrote(following.server.write("a", "x"))
        last = following.server.delete("a")
        following.informer.deleted(key("a"), str(version(last)))
        assert following.informer.get(key("a")) is None

        seen: list[Item | None] = []
        following.informer.on_change(lambda _: seen.append(following.informer.get(key("a"))))
        await following.catch_up()
        assert seen == [None, None]

        again = following.server.write("a", "y")
        await following.catch_up()
        assert following.informer.get(key("a")) == again


async def test_object_whose_deletion_was_lost_by_a_restore_is_seen_again() -> None:
    async with Following() as following:
        kept = following.server.write("a", "x")
        await following.catch_up()
        following.informer.deleted(key("a"), str(version(following.server.delete("a"))))
        assert following.informer.get(key("a")) is None

        following.server.objects["a"] = kept
        following.server.revision += 1000
        following.server.lines.put_nowait(None)
        await eventually(lambda: following.informer.get(key("a")) == kept)


async def test_look_up_costs_what_it_returns_however_many_writes_are_pending() -> None:
    indexed: list[str] = []

    def values(item: Item) -> list[str]:
        indexed.append(item["metadata"]["name"])
        return [item["value"]]

    by_counted_value: Index[Item] = Index("counted", values)
    async with Following() as following:
        following.informer.add_index(by_counted_value)
        for number in range(1_000):
            following.informer.wrote(following.server.write(f"pending-{number}", "x"))
        answer = following.server.write("a", "y")
        following.informer.wrote(answer)
        indexed.clear()

        assert following.informer.by_index(by_counted_value, "y") == (answer,)
        assert indexed == []


async def test_index_that_is_declared_later_finds_own_writes_too() -> None:
    async with Following() as following:
        answer = following.server.write("a", "x")
        following.informer.wrote(answer)
        following.informer.add_index(BY_VALUE)

        assert following.informer.by_index(BY_VALUE, "x") == (answer,)
