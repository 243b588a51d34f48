"""Operators that are declared by decorators, on simulated clusters, and the command that runs them."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

from kube_crds import Condition, Conditions, ConditionStatus, CustomResource, Struct, crd_of
from kube_runtime import (
    Backoff,
    Client,
    Informer,
    KubeconfigPolicy,
    NotFound,
    NotServed,
    Resource,
    RuntimeMetrics,
    TriggerMistaken,
)
from kube_runtime.cli import main
from kube_runtime.operator import Operator, Owner
from kube_simulation import SimulatedCluster, Simulation
from tests.clocks import ManualClock
from tests.faults import Users
from tests.faults.operators import check_operator_under_faults
from tests.kinds import CONFIG_MAPS, NAMESPACES
from tests.waiting import eventually, is_gone

CRDS = Resource.dynamic(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)


class PageSpec(Struct, frozen=True, kw_only=True):
    text: str


class PageStatus(Struct, frozen=True, kw_only=True):
    conditions: Conditions = ()


class Page(CustomResource, frozen=True, kw_only=True):
    GROUP: ClassVar[str] = "pages.example.com"
    spec: PageSpec
    status: PageStatus = PageStatus()


PAGES = Resource.of(Page)


@asynccontextmanager
async def a_cluster(simulation: Simulation, *pages: str) -> AsyncIterator[tuple[SimulatedCluster, Client]]:
    cluster = simulation.cluster("one")
    policy = KubeconfigPolicy(allow_insecure=True)
    async with await Client.from_kubeconfig(cluster.kubeconfig, policy=policy) as client:
        await client.create(CRDS, crd_of(Page), field_manager="user")
        for text in pages:
            await client.apply(PAGES, text, Page(spec=PageSpec(text=text)), "default", field_manager="user")
        yield cluster, client


async def test_operator_comes_to_rest_and_logs_one_line_for_what_it_wrote(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kube_runtime.operator")
    operator, calls = Operator("pages"), 0

    @operator.reconciles(Page, owns=[CONFIG_MAPS], every=0.01)
    async def reconcile(page: Page, owner: Owner[Page]) -> None:
        nonlocal calls
        calls += 1
        await owner.apply(CONFIG_MAPS, {"data": {"text": page.spec.text}})
        shown = Condition(type="Shown", status="True", reason="Applied", message=page.spec.text)
        await owner.write_status(PageStatus(conditions=owner.conditions(shown)))

    async with a_cluster(simulation, "hi") as (cluster, client), operator.running(client):
        await eventually(lambda: calls >= 10)

    written = [
        (each.resource, each.subresource)
        for each in cluster.requests(lambda each: each.is_write and each.manager == "pages")
    ]
    assert written == [("configmaps", ""), ("pages.pages.example.com", "status")]
    assert [each.getMessage() for each in caplog.records if each.name == "kube_runtime.operator"] == [
        "pages reconciles Page (pages.example.com/v1) in all namespaces",
        "Page default/hi: applied ConfigMap hi, wrote the status",
    ]


async def test_missing_crd_is_logged_once_with_what_to_do(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    cluster, metrics = simulation.cluster("one"), RuntimeMetrics()
    policy = KubeconfigPolicy(allow_insecure=True)
    async with await Client.from_kubeconfig(cluster.kubeconfig, policy=policy) as client:
        informer = Informer(client, PAGES, metrics=metrics, backoff=Backoff(base=0.01, max=0.01))
        following = asyncio.create_task(informer.run())
        await eventually(lambda: metrics.informer(PAGES.plural_name).failures >= 3)
        with pytest.raises(TimeoutError, match="within 0 s: the cluster does not know the kind Page of"):
            await informer.wait_synced(0)
        await client.create(CRDS, crd_of(Page), field_manager="user")
        await informer.wait_synced(60)
        following.cancel()
        await asyncio.wait([following])
    assert caplog.text.count("is its CRD applied? kube-runtime crds prints those of operators") == 1


async def test_status_that_is_written_twice_in_a_reconcile_ends_as_written_last(simulation: Simulation) -> None:
    """The second was compared with the status of before the first, and not written where they were equal."""
    operator, written = Operator("pages"), asyncio.Event()

    @operator.reconciles(Page)
    async def reconcile(page: Page, owner: Owner[Page]) -> None:
        def status(text: str) -> PageStatus:
            value: ConditionStatus = "True" if text == "shown" else "False"
            return PageStatus(
                conditions=owner.conditions(Condition(type="Shown", status=value, reason=text, message=""))
            )

        if page.spec.text == "hi":
            await owner.write_status(status("shown"))
        elif not written.is_set():
            await owner.write_status(status("drawing"))
            await owner.write_status(status("shown"))
            written.set()

    async with a_cluster(simulation, "hi") as (_, client):

        async def shown() -> Condition | None:
            (found,) = (await client.get(PAGES, "hi", "default")).status.conditions or (None,)
            return found

        clock = ManualClock()
        async with operator.running(client) as manager:
            manager.clock = clock
            first = await eventually(shown)
            clock.advance(60)
            await client.merge_patch(PAGES, "hi", {"spec": {"text": "bye"}}, "default")
            await asyncio.wait_for(written.wait(), 60)
            second = await shown()

    assert second is not None
    assert (first.reason, second.reason) == ("shown", "shown")
    assert first.last_transition_time != second.last_transition_time


async def test_condition_keeps_its_time_until_its_status_changes(simulation: Simulation) -> None:
    operator = Operator("pages")

    @operator.reconciles(Page)
    async def reconcile(page: Page, owner: Owner[Page]) -> None:
        status: ConditionStatus = "False" if page.spec.text == "off" else "True"
        shown = Condition(type="Shown", status=status, reason="Asked", message=page.spec.text)
        await owner.write_status(PageStatus(conditions=owner.conditions(shown)))

    async with a_cluster(simulation, "hi") as (_, client):

        async def shown(text: str) -> Condition:
            async def seen() -> Condition | None:
                (found,) = (await client.get(PAGES, "hi", "default")).status.conditions or (None,)
                return found if found is not None and found.message == text else None

            return await eventually(seen)

        clock = ManualClock()
        async with operator.running(client) as manager:
            manager.clock = clock
            first = await shown("hi")
            clock.advance(60)
            await client.merge_patch(PAGES, "hi", {"spec": {"text": "bye"}}, "default")
            second = await shown("bye")
            await client.merge_patch(PAGES, "hi", {"spec": {"text": "off"}}, "default")
            third = await shown("off")

    assert [each.observed_generation for each in (first, second, third)] == [1, 2, 3]
    times = [each.last_transition_time for each in (first, second, third)]
    assert times[0] == times[1] != times[2]


async def test_object_stays_until_its_cleanup_is_done_also_over_a_restart(simulation: Simulation) -> None:
    operator, cleanups, is_clean = Operator("pages"), 0, False

    @operator.finalizes(Page)
    async def clean_up(page: Page, owner: Owner[Page]) -> float | None:
        nonlocal cleanups
        cleanups += 1
        return None if is_clean else 0.01

    async with a_cluster(simulation, "hi") as (_, client):
        async with operator.running(client):

            async def is_held() -> bool:
                found = await client.get(PAGES, "hi", "default")
                return found.metadata.finalizers == ("pages.example.com/pages",)

            await eventually(is_held)
        await client.delete(PAGES, "hi", "default")
        async with operator.running(client):
            await eventually(lambda: cleanups >= 3)
            assert (await client.get(PAGES, "hi", "default")).metadata.being_deleted
            is_clean = True
            await eventually(lambda: is_gone(client.get(PAGES, "hi", "default")))


async def test_operator_without_a_cleanup_removes_the_finalizer_that_it_had(simulation: Simulation) -> None:
    operator, calls = Operator("pages"), 0

    @operator.reconciles(Page)
    async def reconcile(page: Page, owner: Owner[Page]) -> None:
        nonlocal calls
        calls += 1

    async with a_cluster(simulation, "hi") as (_, client), operator.running(client):
        held = {"metadata": {"finalizers": ["pages.example.com/pages"]}}
        await client.merge_patch(PAGES, "hi", held, "default")
        await client.delete(PAGES, "hi", "default")
        await eventually(lambda: is_gone(client.get(PAGES, "hi", "default")))


async def test_change_of_what_was_read_calls_the_function_again(simulation: Simulation) -> None:
    operator, seen = Operator("pages"), []

    @operator.reconciles(Page, reads=[CONFIG_MAPS])
    async def reconcile(page: Page, owner: Owner[Page]) -> None:
        found = owner.get(CONFIG_MAPS, f"texts-of-{page.spec.text}")
        seen.append(None if found is None else found["data"]["text"])

    async with a_cluster(simulation, "hi") as (_, client), operator.running(client):
        await eventually(lambda: seen)
        for name, text in (("texts-of-bye", "no"), ("texts-of-hi", "a"), ("texts-of-hi", "b")):
            await client.apply(CONFIG_MAPS, name, {"data": {"text": text}}, "default", field_manager="user")
            await eventually(partial(lambda wanted: wanted in {"no", seen[-1]}, text))

    assert [*dict.fromkeys(seen)] == [None, "a", "b"]


async def test_operator_comes_to_the_same_end_under_faults() -> None:
    operator = Operator("pages")

    @operator.reconciles(Page, owns=[CONFIG_MAPS], reads=[CONFIG_MAPS])
    async def reconcile(page: Page, owner: Owner[Page]) -> None:
        await owner.apply(CONFIG_MAPS, {"data": {"text": page.spec.text}})
        name = f"index-of-{page.metadata.name}"
        if owner.get(CONFIG_MAPS, name) is None:  # it has no owner, so that somebody has to delete it
            document = {"data": {"text": "index"}}
            await owner.manager.client.apply(CONFIG_MAPS, name, document, "default", field_manager="pages")

    @operator.finalizes(Page)
    async def clean_up(page: Page, owner: Owner[Page]) -> None:
        with suppress(NotFound, NotServed):
            await owner.manager.client.delete(CONFIG_MAPS, f"index-of-{page.metadata.name}", "default")
        owner.event("Removed", "it has no index any more")  # named differently in each run

    async def script(users: Users) -> None:
        for name in ("one", "two"):
            await users.client.apply(PAGES, name, Page(spec=PageSpec(text=name)), "default", field_manager="user")
        await users.settled()
        await users.client.merge_patch(PAGES, "one", {"spec": {"text": "bye"}}, "default")
        await users.client.delete(PAGES, "two", "default")
        await users.settled()

    report = await check_operator_under_faults(operator, script, max_places=4)
    assert report.runs.keys() == {"undisturbed", "KillAfterWrite", "StartStale", "HideEvent", "CutAtAwait"}


async def test_only_own_children_are_deleted(simulation: Simulation) -> None:
    operator, done = Operator("pages"), 0

    @operator.reconciles(Page, owns=[CONFIG_MAPS])
    async def reconcile(page: Page, owner: Owner[Page]) -> None:
        nonlocal done
        await owner.apply(CONFIG_MAPS, {"metadata": {"name": "own"}})
        for name in ("own", "foreign", "missing"):
            await owner.delete(CONFIG_MAPS, name)
        done += 1

    async with a_cluster(simulation) as (_, client):
        await client.apply(CONFIG_MAPS, "foreign", {}, "default", field_manager="user")
        async with operator.running(client):
            page = Page(spec=PageSpec(text="hi"))
            await client.apply(PAGES, "one", page, "default", field_manager="user")
            await eventually(lambda: done)
        names = {each["metadata"]["name"] for each in (await client.list(CONFIG_MAPS, "default")).items}
    assert "foreign" in names
    assert "own" not in names


async def test_kinds_that_were_not_declared_are_refused(simulation: Simulation) -> None:
    operator, errors = Operator("pages"), []

    @operator.reconciles(Page)
    async def reconcile(page: Page, owner: Owner[Page]) -> None:
        with pytest.raises(ValueError, match=r"ConfigMap \(v1\) is not in owns= of the function") as raised:
            await owner.apply(CONFIG_MAPS, {})
        with pytest.raises(ValueError, match=r"ConfigMap \(v1\) is not in reads= of the function that reconciles Page"):
            owner.get(CONFIG_MAPS, "one")
        errors.append(raised)

    async with a_cluster(simulation, "hi") as (_, client), operator.running(client):
        await eventually(lambda: errors)


async def test_child_outside_of_the_namespace_of_its_owner_has_no_owner(simulation: Simulation) -> None:
    operator, done = Operator("pages"), []

    @operator.reconciles(Page, owns=[CONFIG_MAPS, NAMESPACES])
    async def reconcile(page: Page, owner: Owner[Page]) -> None:
        for kind, metadata in ((CONFIG_MAPS, {"namespace": "elsewhere"}), (NAMESPACES, {})):
            with pytest.raises(ValueError, match="is outside of the namespace of its owner default/hi"):
                await owner.apply(kind, {"metadata": metadata})
        done.append(await owner.apply(NAMESPACES, {"metadata": {"ownerReferences": []}}))

    async with a_cluster(simulation, "hi") as (_, client), operator.running(client):
        await eventually(lambda: done)


async def test_function_that_cannot_be_called_fails_at_the_declaration() -> None:
    operator = Operator("pages")

    with pytest.raises(TriggerMistaken, match=r"expected async def one\(item, owner\)"):

        @operator.reconciles(Page)  # type: ignore[arg-type]  # an error of mypy, too
        async def one(page: Page) -> None: ...

    with pytest.raises(TriggerMistaken, match=r"two is not async: expected async def two\(item, owner\)"):

        @operator.finalizes(Page)  # type: ignore[arg-type]  # an error of mypy, too
        def two(page: Page, owner: Owner[Page]) -> None: ...

    @operator.reconciles(Page)
    async def three(page: Page, owner: Owner[Page]) -> None: ...

    with pytest.raises(TriggerMistaken, match="has the function three already"):
        operator.reconciles(Page)(three)
    with pytest.raises(ValueError, match="invalid name of an operator 'No Name'"):
        Operator("No Name")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "declares 0 operators: expected one `Operator(name)`"),
        (
            "from kube_runtime.operator import Operator\na, b = Operator('a'), Operator('b')",
            "declares 2 operators: expected one `Operator(name)`",
        ),
    ],
)
def test_file_without_one_operator_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, error: str
) -> None:
    file = tmp_path / "mistaken_operator.py"
    file.write_text(text)

    assert main(["run", str(file)]) == 2
    assert capsys.readouterr().err == f"error: {file} {error}\n"
