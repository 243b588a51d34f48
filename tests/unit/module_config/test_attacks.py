"""Users of an SKR who write Module CRs to harm: large, many, nested, or with values that Python does not take."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime import Client, JsonLimits, KubeError, Priority, Resource
from kube_runtime.client.decoding import decoding_for
from kube_runtime.client.json_limits import check_json
from kube_runtime.client.list_pages import ListPages
from kube_runtime.one_by_one import OneByOne
from lifecycle_manager.contract.resources import KYMAS, MODULE_CONFIGS
from lifecycle_manager.contract.signals import ObjectReference, ReadScope
from lifecycle_manager.contract.verdict import POSTPONED, QUOTA_EXCEEDED
from lifecycle_manager.module_catalog.module_kinds import ModuleCrKind
from lifecycle_manager.module_config import plan as rules
from lifecycle_manager.module_config.apply import MANY_OBJECTS
from lifecycle_manager.module_config.plan import (
    ApplyModuleConfig,
    DeleteModuleConfig,
    acceptable,
    sources_of,
    writes_of,
)
from lifecycle_manager.module_config.reading import ANSWER, ModuleCrListing, Reading, find_some
from lifecycle_manager.module_config.settings import Quota
from lifecycle_manager.module_config.snapshot import ModuleConfigSnapshot
from lifecycle_manager.module_config.text import MAX_TEXT_BYTES, MODULE_CR
from lifecycle_manager.module_config.text_process import TextProcess
from lifecycle_manager.module_config.texts import TextMaker, TextMemory
from lifecycle_manager.module_config.writes import MIN_WRITES
from lifecycle_manager.skr.budget import CpuBudget
from lifecycle_manager.skr.failure import INTERNAL_ERROR
from lifecycle_manager_api import Condition, find
from tests import builders
from tests.clocks import ManualClock
from tests.unit.module_config.test_controller import INTERVAL, KEY, NAME, Module, changed, module
from tests.world import KCP, SKR

KIND = ModuleCrKind("cloud-resources.kyma-project.io/v1beta1", "Infrastructure", "kyma-system", "default")
MAX_TURN_SECONDS = 0.05


class Answers:
    def __init__(self, body: bytes) -> None:
        self.body = body
        self.mapper = self

    async def served(self, api_version: str, kind: str) -> Resource[dict[str, Any]]:
        group, _, version = api_version.partition("/")
        return Resource.dynamic(group, version, kind, "infrastructures", namespaced=True)

    async def next_page(self, resource: Resource[Any], done: ListPages, *, limits: JsonLimits) -> Sequence[msgspec.Raw]:
        check_json(self.body, limits)
        items, token = decoding_for(resource.type).raw_list(self.body, without_nested=True)
        done.add(len(items), token, len(self.body))
        return items

    async def get_undecoded(self, *_: Any, limits: JsonLimits) -> bytes:
        check_json(self.body, limits)
        return self.body


def skr(body: bytes) -> Client:
    return cast("Client", Answers(body))


def listed(*items: bytes) -> bytes:
    return b'{"apiVersion":"v1","kind":"List","metadata":{},"items":[%s]}' % b",".join(items)


def raw(name: str = "default", value: bytes = b"1") -> bytes:
    document = builders.infrastructure(name, value="HERE")
    return json.dumps(document).encode().replace(b'"HERE"', value)


def maker(budget: CpuBudget | None = None) -> TextMaker:
    return TextMaker(
        process=TextProcess(), memory=TextMemory(), budget=budget or CpuBudget(burst=100.0), clock=ManualClock()
    )


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
    found = await (find_some(client, [KIND], references) if references else ModuleCrListing([KIND]).read(client))
    identities = Reading(found.default, found.module_crs, found.complete)
    seen = snapshot(identities)
    reading = await maker().with_texts(found, acceptable(seen, identities), sources_of(seen, identities))
    return writes_of(replace(seen, reading=reading))


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
    """Ten of 1.4 MB with as many values as they may have: the loop's own CPU time of one turn is measured."""
    bodies = [listed(*(raw(f"n{page}-{number}", value) for number in range(4))) for page in range(3)]
    worst, stop = 0.0, asyncio.Event()

    async def heartbeat() -> None:
        nonlocal worst
        while not stop.is_set():
            began = time.thread_time()
            await asyncio.sleep(0)
            worst = max(worst, time.thread_time() - began)

    beat = asyncio.create_task(heartbeat())
    await asyncio.sleep(0)
    for body in bodies:
        found = await ModuleCrListing([KIND]).read(skr(body))
        reading = await maker().with_texts(found, set(found.module_crs), {})
        assert all(each is not None and not each.is_unread for each in reading.found.values())
    stop.set()
    await beat
    assert worst < MAX_TURN_SECONDS


async def test_unchanged_module_cr_is_not_made_into_a_text_again() -> None:
    value = json.dumps(list(range(5000))).encode()
    found = await ModuleCrListing([KIND]).read(skr(listed(raw("default", value))))
    made = maker(CpuBudget(burst=0.0001))
    (first,) = (await made.with_texts(found, set(found.module_crs), {})).found.values()
    assert first is not None
    assert first.text is not None
    assert made.budget.wait(made.clock.monotonic()) > 0
    config = builders.module_config(spec={"resource": first.text})
    (again,) = (await made.with_texts(found, set(found.module_crs), {first.source: config})).found.values()
    assert again == first
    tampered = builders.module_config(spec={"resource": "other"})
    (over,) = (await made.with_texts(found, set(found.module_crs), {first.source: tampered})).found.values()
    assert over is not None
    assert over.problem is not None
    assert over.problem.reason == POSTPONED


@pytest.mark.parametrize("values", [5_000, 20_000])
async def test_module_cr_over_the_quota_is_made_into_a_text_once(values: int) -> None:
    value = json.dumps([{"a": "x" * 60} for _ in range(values)]).encode()
    found = await ModuleCrListing([KIND]).read(skr(listed(raw("default", value))))
    made = maker(CpuBudget(burst=0.0001))
    (first,) = (await made.with_texts(found, set(found.module_crs), {}, 1_000)).found.values()
    assert first is not None
    assert made.budget.wait(made.clock.monotonic()) > 0  # another one would be postponed
    again = await made.with_texts(found, set(found.module_crs), {}, 1_000)
    (second,) = again.found.values()
    assert second is not None
    assert second.problem == first.problem
    assert second.exceeds_quota == (first.problem is None)
    seen = replace(snapshot(again), quota=Quota(200, 1_000))
    exceeding = [step for step in writes_of(seen) if isinstance(step, rules.SetCondition)]
    assert [step.condition.reason for step in exceeding] == [
        QUOTA_EXCEEDED if first.problem is None else first.problem.reason
    ]
    (room,) = (await made.with_texts(found, set(found.module_crs), {})).found.values()
    assert room is not None
    assert room.problem is not None
    assert room.problem.reason == (POSTPONED if first.problem is None else first.problem.reason)


def test_budget_is_refilled_and_never_saved_up() -> None:
    budget = CpuBudget(share=0.1, burst=1.0)
    budget.charge(3.0, now=0.0)
    assert budget.wait(0.0) == pytest.approx(20.0)
    assert budget.wait(20.0) == pytest.approx(0.0)
    budget.charge(1.0, now=1000.0)
    assert budget.wait(1000.0) == 0.0


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


async def test_large_module_crs_delay_no_small_one() -> None:
    async with module() as it:
        await it.write("small")
        await it.reconcile()
        for number in range(10):
            it.world.cluster("demo").create(large(f"large-{number}", 0))
        controller = it.world.manager.controllers["module-config"]
        state: Any = controller.state(("kcp-system", "demo", "cloud-resources"))
        spent = state.budget.burst - 0.001  # the first large one takes the rest
        state.budget.charge(spent, it.world.clock.monotonic())
        state.budget.of_all.charge(-spent, it.world.clock.monotonic())  # not spent by others
        began = time.process_time()
        for turn in range(3):
            await it.write(f"changed-{turn}")
            causes = [changed(version="older", event_id=str(turn)), ReadScope.EVERYTHING]
            await it.reconcile(*causes)
            assert f"changed-{turn}" in await it.text()
        assert state.budget.wait(it.world.clock.monotonic()) > 0
        assert state.memory.postponed
        assert time.process_time() - began < 60
        written = len((await it.world.kcp.list(MODULE_CONFIGS, KCP)).items)
        it.world.clock.advance(INTERVAL)
        await it.reconcile()
        assert 1 < written < 11
        assert state.budget.wait(it.world.clock.monotonic()) >= 0


async def test_only_what_takes_long_waits_for_a_turn_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    waits, turn = 0, OneByOne.turn

    async def counted(turns: OneByOne) -> None:
        nonlocal waits
        waits += 1
        await turn(turns)

    monkeypatch.setattr(OneByOne, "turn", counted)
    async with module() as it:
        await it.write("one")
        await it.reconcile()
        assert waits == 0
        for number in range(MANY_OBJECTS):
            await it.write("small", name=f"small-{number}")
        await it.reconcile(ReadScope.EVERYTHING)
        assert waits >= 3  # before names, texts and writes
        waits = 0
        it.world.cluster("demo").create(large("large-0", 0))
        await it.reconcile(ReadScope.EVERYTHING)
        assert waits > 3


async def test_small_module_crs_of_a_long_list_do_not_keep_its_pages() -> None:
    found = await ModuleCrListing([KIND]).read(skr(listed(*(raw(f"small-{number}") for number in range(500)))))
    assert {type(each) for each in found.sources.values()} == {bytes}


async def test_large_module_cr_is_not_requested_before_there_is_time_for_its_text() -> None:
    async with module() as it:
        cluster = it.world.cluster("demo")
        cluster.create(large("large-0", 0))
        await it.write("one")
        await it.reconcile(ReadScope.EVERYTHING)
        state: Any = it.world.manager.controllers["module-config"].state(("kcp-system", "demo", "cloud-resources"))
        edited = replace(changed(), reference=KIND.reference(SKR, "large-0"))
        assert state.memory.cost_of(edited.reference)  # it became a text
        state.budget.charge(1.0, it.world.clock.monotonic())
        since = it.world.requests
        for version in range(5):
            await it.reconcile(replace(edited, resource_version=str(version)))
        await it.write("two")
        await it.reconcile(edited, changed(version="older"))
        requested = {each.path.rpartition("/")[2] for each in cluster.requests(lambda _: True, since=since)}
        assert "default" in requested
        assert not requested & {"large-0", "infrastructures"}
        assert "two" in await it.text()
        assert state.memory.postponed == {edited.reference}
        assert not state.announcements.of()
        it.world.clock.advance(state.budget.wait(it.world.clock.monotonic()) + 1)
        await it.reconcile(changed(version="oldest"))
        assert not state.memory.postponed


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


async def test_all_module_crs_are_listed_only_when_there_is_time_for_the_large_ones() -> None:
    async with module() as it:
        it.world.cluster("demo").create(large("large-0", 0))
        await it.write("one")
        await it.reconcile(ReadScope.EVERYTHING)
        state: Any = it.world.manager.controllers["module-config"].state(("kcp-system", "demo", "cloud-resources"))
        state.budget.charge(1.0, it.world.clock.monotonic())
        since = it.world.requests
        await it.write("two")
        result = await it.reconcile(ReadScope.EVERYTHING, changed(version="older"))
        assert it.requests(since).count("list") == 0
        assert "two" in await it.text()
        assert result.requeue_after is not None
        it.world.clock.advance(result.requeue_after + 1)
        await it.reconcile()
        assert it.requests(since).count("list") == 1


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


async def test_event_does_not_wait_for_a_long_list_and_is_newer_than_its_pages() -> None:
    async with module() as it:
        for number in range(150):
            await it.write("early", f"n-{number:03}")
        await it.write("one")
        since = it.world.requests
        await it.reconcile(changed(version="older"), ReadScope.EVERYTHING)
        assert it.requests(since) == ["list", "get"]
        assert "one" in await it.text()
        assert await it.number_of_configs() == 1
        await it.delete("n-000")
        await it.write("late", "n-001")
        deleted, edited = changed("n-000", "DELETE"), changed("n-001", version="older")
        await it.reconcile(deleted, edited)
        configs = (await it.world.kcp.list(MODULE_CONFIGS, KCP)).items
        named = {each.spec.resource_ref.name: each for each in configs if each.spec.resource_ref is not None}
        assert named.keys() == {"default", *(f"n-{number:03}" for number in range(1, 150))}
        assert "late" in named["n-001"].spec.resource
        since = it.world.requests
        await it.reconcile()
        assert it.requests(since) == []


async def test_what_concerns_all_module_crs_is_not_forgotten_during_a_list() -> None:
    async with module() as it:
        for number in range(150):
            await it.write("early", f"n-{number:03}")
        await it.write("one")
        await it.reconcile(changed(version="older"), ReadScope.EVERYTHING)
        await it.write("late", "n-001")
        since = it.world.requests
        await it.reconcile(ReadScope.EVERYTHING)
        result = await it.reconcile()
        assert it.requests(since) == ["list"] * 3
        assert result.requeue_after is not None
        assert result.requeue_after > INTERVAL / 2
        configs = (await it.world.kcp.list(MODULE_CONFIGS, KCP)).items
        assert len(configs) == 151
        assert sum("late" in each.spec.resource for each in configs) == 1


async def test_event_does_not_wait_for_the_writes_of_many_module_crs() -> None:
    async with module() as it:
        for number in range(90):
            await it.write("one", f"n-{number:03}")
        controller = it.world.manager.controllers["module-config"]
        controller.enqueue(KEY, changed(), priority=Priority.EVENT)
        await it.reconcile(ReadScope.EVERYTHING)  # while the event waits
        written = await it.number_of_configs()
        assert written <= MIN_WRITES
        await it.write("two")
        since = it.world.requests
        await it.reconcile(changed(version="older"))
        assert it.requests(since) == ["get"]
        assert "two" in await it.text()
        assert written < await it.number_of_configs() <= written + MIN_WRITES
        controller.queue.take_causes(KEY)
        await it.reconcile()
        assert await it.number_of_configs() == 91


async def test_exception_in_the_plan_becomes_a_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    async with module() as it:
        await it.write("one")
        await it.reconcile()

        def fail(*_: object) -> None:
            raise ValueError("a secret of the user")

        with monkeypatch.context() as patch:
            patch.setattr("lifecycle_manager.module_config.plan.acceptable", fail)
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
