"""Users of an SKR who write Module CRs to harm: large, many, nested, or with values that Python does not take."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime import Client, JsonLimits, KubeError, Resource
from kube_runtime.client.decoding import decoding_for
from kube_runtime.client.json_limits import check_json
from lifecycle_manager.contract.resources import KYMAS, MODULE_CONFIGS
from lifecycle_manager.contract.signals import ObjectReference, ReadScope
from lifecycle_manager.contract.verdict import QUOTA_EXCEEDED
from lifecycle_manager.module_catalog.module_kinds import ModuleCrKind
from lifecycle_manager.module_config import reading as reading_module
from lifecycle_manager.module_config import rules
from lifecycle_manager.module_config import texts as texts_module
from lifecycle_manager.module_config.reading import ANSWER, ModuleCr, Reading, find_all, find_some
from lifecycle_manager.module_config.rules import ApplyModuleConfig, DeleteModuleConfig, acceptable, writes_of
from lifecycle_manager.module_config.snapshot import ModuleConfigSnapshot
from lifecycle_manager.module_config.texts import MODULE_CR, TextMaker
from lifecycle_manager.options.configuration import Quota
from lifecycle_manager.skr.failure import INTERNAL_ERROR
from lifecycle_manager_api import Condition, find
from lifecycle_manager_api.kinds import MAX_TEXT_BYTES
from tests import builders
from tests.cpu_time import ATTEMPTS
from tests.unit.module_config.planning import named
from tests.unit.module_config.test_controller import INTERVAL, NAME, Module, changed, module
from tests.world import KCP, SKR

KIND = ModuleCrKind("cloud-resources.kyma-project.io/v1beta1", "Infrastructure", "kyma-system", "default")
MAX_BLOCKED_SECONDS = 0.05


class Answers:
    def __init__(self, body: bytes) -> None:
        self.body = body
        self.mapper = self

    async def served(self, api_version: str, kind: str) -> Resource[dict[str, Any]]:
        group, _, version = api_version.partition("/")
        return Resource.dynamic(group, version, kind, "infrastructures", namespaced=True)

    async def undecoded_pages(
        self, resource: Resource[Any], *, limits: JsonLimits
    ) -> AsyncIterator[Sequence[msgspec.Raw]]:
        check_json(self.body, limits)
        yield decoding_for(resource.type).raw_list(self.body, without_nested=True)[0]

    async def get_undecoded(self, *_: Any, limits: JsonLimits) -> bytes:
        check_json(self.body, limits)
        return self.body


def any_kind(_: Resource[dict[str, Any]]) -> None:
    """Allow every kind."""


def skr(body: bytes) -> Client:
    return cast("Client", Answers(body))


def listed(*items: bytes) -> bytes:
    return b'{"apiVersion":"v1","kind":"List","metadata":{},"items":[%s]}' % b",".join(items)


def raw(name: str = "default", value: bytes = b"1") -> bytes:
    document = builders.infrastructure(name, value="HERE")
    return json.dumps(document).encode().replace(b'"HERE"', value)


def snapshot(reading: Reading) -> ModuleConfigSnapshot:
    return ModuleConfigSnapshot(
        kyma="demo",
        module="cloud-resources",
        namespace="kcp-system",
        existing=(builders.module_config(),),
        reading=reading,
    )


async def steps_of(client: Client, *references: ObjectReference) -> tuple[rules.Write, ...]:
    """Return the steps that follow from the answer of an SKR: decoded, identified, as text, planned."""
    found = await (
        find_some(client, [KIND], references, any_kind) if references else find_all(client, [KIND], any_kind)
    )
    seen = named(snapshot(found))
    accepted = acceptable(seen)
    read = await TextMaker().with_texts("demo", found, accepted)
    return writes_of(replace(seen, reading=read, accepted=accepted))


HOSTILE = st.sampled_from(
    [
        b"9" * 5000,
        b"-" + b"9" * 4000,
        b'"' + b"0" * 5000 + b'"',
        b"1e999",
        b"[" * 2000 + b"]" * 2000,
        b'{"a":' * 150 + b"1" + b"}" * 150,
        b'"\\ud800"',
        b'"\xff"',
        b'"' + b"9" * 5000 + b'"',
        b'".."',
        b'""',
        b"null",
        b"[]",
        b"{}",
        b"true",
        b'"\\u0000"',
    ]
)
FIELDS = st.sampled_from(
    ["name", "namespace", "uid", "resourceVersion", "generation", "annotations", "managedFields", "creationTimestamp"]
)


@st.composite
def hostile_items(draw: st.DrawFn) -> bytes:
    document = builders.infrastructure(draw(st.sampled_from(["default", "one", "two"])), value="SPEC")
    document["metadata"][draw(FIELDS)] = "FIELD"
    text = json.dumps(document).encode()
    return text.replace(b'"SPEC"', draw(HOSTILE)).replace(b'"FIELD"', draw(HOSTILE | st.just(b'"x"')))


BODIES = (
    st.binary(max_size=100)
    | st.lists(hostile_items() | HOSTILE | st.just(raw("healthy")), max_size=4).map(lambda items: listed(*items))
    | hostile_items()
)


@given(BODIES)
def test_any_bytes_become_steps_or_an_error_of_the_cluster(body: bytes) -> None:
    for references in ((), (KIND.default,)):
        try:
            steps = asyncio.run(steps_of(skr(body), *references))
        except KubeError:
            continue
        for step in steps:
            if isinstance(step, ApplyModuleConfig):
                assert len(msgspec.json.encode(step.text)) <= MAX_TEXT_BYTES
                msgspec.json.encode(msgspec.to_builtins(step.reference))


DEEP, NESTED = b"[" * 300_000 + b"]" * 300_000, b'{"a":' * 300 + b"1" + b"}" * 300


@pytest.mark.parametrize("value", [b"9" * 5000, DEEP, b"1e999", NESTED])
async def test_one_module_cr_that_can_not_be_read_hides_no_other(value: bytes) -> None:
    body = listed(raw("bad", value), raw("healthy"))
    steps = await steps_of(skr(body))
    if value == DEEP:  # no part of its list can be decoded; what is announced is read by name
        assert not steps
        steps = await steps_of(skr(raw("healthy")), KIND.reference(SKR, "healthy"))
    assert [step.source.name for step in steps if isinstance(step, ApplyModuleConfig) and step.text] == ["healthy"]


async def test_list_with_invalid_identities_deletes_nothing() -> None:
    steps = await steps_of(skr(listed(b"{}", b'{"metadata":{"name":".."}}', b"1")))
    assert not [step for step in steps if isinstance(step, DeleteModuleConfig)]


MANY_VALUES = json.dumps([{"a": "x" * 100, "b": number} for number in range(11_000)]).encode()
MANY_BRACKETS = json.dumps({f"f:{'x' * 40}{number}": {} for number in range(24_000)}).encode()


@pytest.mark.parametrize("value", [MANY_VALUES, MANY_BRACKETS], ids=["values", "brackets"])
async def test_large_module_crs_leave_the_event_loop_to_others(value: bytes) -> None:
    """Eight of 1.4 MB with as many values as they may have: the CPU time in which the event loop is blocked."""
    bodies = [listed(*(raw(f"n{page}-{number}", value) for number in range(4))) for page in range(2)]

    async def longest_block() -> float:
        longest, stop = 0.0, asyncio.Event()

        async def heartbeat() -> None:
            nonlocal longest
            while not stop.is_set():
                began = time.thread_time()
                await asyncio.sleep(0)
                longest = max(longest, time.thread_time() - began)

        beat = asyncio.create_task(heartbeat())
        await asyncio.sleep(0)
        for body in bodies:
            reading = await find_all(skr(body), [KIND], any_kind)
            while any(each.is_unread for each in reading.present):
                reading = await TextMaker().with_texts("demo", reading, set(reading.found))
        stop.set()
        await beat
        return longest

    left = ATTEMPTS
    while await longest_block() >= MAX_BLOCKED_SECONDS:
        left -= 1
        assert left, f"the event loop is blocked for {MAX_BLOCKED_SECONDS} s or longer at each of {ATTEMPTS} attempts"


def large(name: str, version: int) -> dict[str, Any]:
    values = [{"a": "x" * 100, "b": number} for number in range(10_000)]
    return {
        "apiVersion": KIND.api_version,
        "kind": KIND.kind,
        "metadata": {"name": name, "namespace": SKR},
        "spec": {"version": version, "values": values},
    }


async def condition_of(it: Module, name: str, kind: str = "Synced") -> Condition | None:
    config = await it.config(name)
    return None if config is None else find(config.status.conditions, kind)


async def test_large_module_crs_delay_no_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts_module, "MAX_LARGE_SECONDS", 0.0)  # one in each reconcile
    async with module() as it:
        await it.write("small")
        await it.reconcile()
        for number in range(5):
            it.world.cluster("demo").create(large(f"large-{number}", 0))
        for turn in range(3):
            await it.write(f"changed-{turn}")
            causes = [changed(version="older", event_id=str(turn)), ReadScope.EVERYTHING]
            await it.reconcile(*causes)
            assert f"changed-{turn}" in await it.text()
        assert await it.number_of_configs() == 2
        since = it.world.requests
        for _ in range(4):
            last = (await it.reconcile()).requeue_after
        assert last is not None
        assert last > 1
        assert await it.number_of_configs() == 6
        assert "list" not in it.requests(since)


async def test_large_texts_of_one_cluster_delay_one_of_another_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made, may_end = list[str](), threading.Event()

    def slow(module_cr: ModuleCr) -> ModuleCr:
        may_end.wait(10)
        made.append(module_cr.source.name)
        return replace(module_cr, text="text")

    monkeypatch.setattr(texts_module, "with_text", slow)
    maker, value = TextMaker(), b'"%s"' % (b"x" * texts_module.SMALL_BYTES)
    making = []
    for cluster, name in (("one", "first"), ("one", "second"), ("one", "third"), ("other", "other")):
        found = await find_all(skr(listed(raw(name, value))), [KIND], any_kind)
        making.append(asyncio.create_task(maker.with_texts(cluster, found, set(found.found))))
        await asyncio.sleep(0)
    may_end.set()
    await asyncio.gather(*making)
    assert made == ["first", "other", "second", "third"]


async def test_module_crs_of_a_list_do_not_keep_its_pages() -> None:
    found = await find_all(skr(listed(*(raw(f"small-{number}") for number in range(500)))), [KIND], any_kind)
    assert {type(each.raw) for each in found.present} == {bytes}


@pytest.mark.parametrize(("limit", "value"), [("MAX_LISTED", 60), ("MAX_LISTING_SECONDS", 0.0)])
async def test_list_that_is_too_long_hides_no_announced_change_and_deletes_nothing(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: float
) -> None:
    async with module() as it:
        for number in range(150):
            await it.write("early", f"n-{number:03}")
        await it.reconcile()
        monkeypatch.setattr(reading_module, limit, value)
        await it.write("late", "n-149")
        await it.delete("n-148")
        since = it.world.requests
        result = await it.reconcile(changed("n-149", version="older"), ReadScope.EVERYTHING)
        assert it.requests(since).count("list") <= 3
        assert result.requeue_after == INTERVAL
        configs = (await it.world.kcp.list(MODULE_CONFIGS, KCP)).items
        assert len(configs) == 150
        assert sum("late" in each.spec.resource for each in configs) == 1


async def test_small_module_crs_that_come_and_go_do_not_read_the_large_ones() -> None:
    async with module() as it:
        cluster = it.world.cluster("demo")
        cluster.create(large("large-0", 0))
        await it.reconcile(ReadScope.EVERYTHING)
        await it.reconcile(ReadScope.DIFFERING)  # its ModuleConfig was created
        since = it.world.requests
        for turn in range(5):
            await it.write(f"turn-{turn}")
            await it.reconcile(changed(operation="CREATE"))
            await it.reconcile(ReadScope.DIFFERING)
            assert f"turn-{turn}" in await it.text()
            await it.delete()
            await it.reconcile(changed(operation="DELETE", version="older"))
            await it.reconcile(ReadScope.DIFFERING)
            assert await it.config() is None
        read = [each.path.rpartition("/")[2] for each in cluster.requests(lambda each: each.verb == "get", since=since)]
        assert "large-0" not in read
        assert "list" not in it.requests(since)


async def test_number_of_module_configs_is_limited_and_reported() -> None:
    async with module() as it:
        for number in range(250):
            document = large(f"n-{number:03}", 0) | {"spec": {}}
            it.world.cluster("demo").create(document)
        await it.reconcile()
        await it.reconcile(ReadScope.EVERYTHING)
        configs = (await it.world.kcp.list(MODULE_CONFIGS, KCP)).items
        assert len(configs) == Quota().max_objects
        conditions = [each for config in configs if (each := find(config.status.conditions, "Complete")) is not None]
        assert [(each.status, each.reason) for each in conditions] == [("False", QUOTA_EXCEEDED)]
        assert "50 Module CRs exceed the quota of 200 objects" in conditions[0].message
        await it.world.reconcile("demo")
        (reported,) = (await it.world.kcp.get(KYMAS, "demo", KCP)).status.modules
        assert "50 Module CRs exceed the quota of 200 objects" in reported.message
        for number in range(250):
            if number >= 10:
                await it.delete(f"n-{number:03}")
        await it.reconcile(ReadScope.EVERYTHING)
        await it.reconcile(ReadScope.EVERYTHING)
        configs = (await it.world.kcp.list(MODULE_CONFIGS, KCP)).items
        assert len(configs) == 10


async def test_exception_in_the_plan_becomes_a_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    async with module() as it:
        await it.write("one")
        await it.reconcile()

        def fail(*_: object) -> None:
            raise ValueError("a secret of the user")

        with monkeypatch.context() as patch:
            patch.setattr("lifecycle_manager.module_config.rules.acceptable", fail)
            with pytest.raises(ValueError, match="secret"):
                await it.reconcile(ReadScope.EVERYTHING)
        synced = await condition_of(it, NAME)
        assert synced is not None
        assert (synced.status, synced.reason) == ("False", INTERNAL_ERROR)
        assert "secret" not in synced.message
        await it.reconcile(ReadScope.EVERYTHING)
        synced = await condition_of(it, NAME)
        assert synced is not None
        assert synced.status == "True"


def test_one_answer_has_at_most_8_mib() -> None:
    assert ANSWER.max_bytes == 8 * 1024 * 1024
    assert MODULE_CR.max_bytes < ANSWER.max_bytes
