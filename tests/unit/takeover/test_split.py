"""A fleet can be split: only some Kymas are this version's, shared among its replicas."""

from collections.abc import AsyncIterator, Callable, Collection
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import pytest_asyncio
import typer
from prometheus_client import CollectorRegistry

from kube_runtime import Change
from kube_runtime.informer.informer import Handler
from kube_runtime.leases.lease import LeaseLost
from kube_runtime.sharding import Alone
from kyma_fleet import running
from kyma_takeover.adoption import steps
from kyma_takeover.cli import adopt
from kyma_takeover.extension import FROM_GO
from kyma_takeover.lease import LEASE, LEASES, FormerLease, WholeFleet
from kyma_takeover.split import SelectedKymas
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager.events.endpoint import UnknownRuntime, VerifiedEvent
from lifecycle_manager.events.publishing import EventPublisher
from lifecycle_manager.process.telemetry import ChangeLatency
from lifecycle_manager.settings import Settings, SettingsInvalid
from lifecycle_manager_api import Kyma, decode_event, names
from tests import builders
from tests.clocks import ManualClock
from tests.waiting import eventually
from tests.world import KCP, World, open_world

LABELS = {"example.com/lifecycle-manager": "python"}
SKIPPED = {names.SKIP_RECONCILIATION: "true"}
KEPT = {names.SKIPPED_BY: names.FORMER_VERSION}


class Replicas(Alone):
    """Replicas of which this one has the Kymas whose names begin with a letter."""

    def __init__(self) -> None:
        self.lost = False
        self.has_begun = False

    def owns(self, owner: str) -> bool:
        return owner.startswith("a")

    def check(self) -> None:
        if self.lost:
            raise LeaseLost("lost")

    async def run(self, work: Any) -> None:
        work.begin(work.owners(), ())


class Begun:
    """Work that notes what it was told to begin with and to forget."""

    def __init__(self) -> None:
        self.calls: list[tuple[set[str], set[str]]] = []

    def owners(self) -> Collection[str]:
        return ()

    def begin(self, gained: Collection[str], lost: Collection[str]) -> None:
        self.calls.append((set(gained), set(lost)))

    async def finish(self, is_lost: Callable[[str], bool]) -> None:
        raise AssertionError


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        world.manager.informer(KYMAS)
        await world.sync_caches()
        yield world


async def put(world: World, name: str, labels: dict[str, str], annotations: dict[str, str]) -> None:
    metadata = {"name": name, "labels": labels, "annotations": annotations}
    document = {"metadata": metadata, "spec": {"channel": "regular"}}
    await world.kcp.apply(KYMAS, name, document, KCP, field_manager="test")


async def test_kyma_is_managed_by_its_labels_its_mark_and_its_replica(world: World) -> None:
    replicas, work = Replicas(), Begun()
    split = SelectedKymas(replicas, LABELS)
    split.follow(world.manager)
    await split.run(work)
    await put(world, "a-selected", LABELS | SKIPPED, KEPT)
    await put(world, "b-selected", LABELS | SKIPPED, KEPT)
    await put(world, "a-other", SKIPPED, KEPT)
    await put(world, "a-paused", LABELS | SKIPPED, {})
    await put(world, "a-forgotten", LABELS, KEPT)
    kymas = world.manager.informer(KYMAS)
    await eventually(lambda: len(kymas.list()) == 5)

    owned = {name for each in kymas.list() if split.owns(name := each.metadata.name)}
    assert owned == {"a-selected"}
    assert {each.metadata.name for each in kymas.list() if split.selects(each)} == {"a-selected", "b-selected"}
    assert not split.owns("gone")
    assert not split.owns("Watcher lifecycle-manager")
    await eventually(lambda: work.calls[-1] == ({"a-selected", "b-selected"}, set()))

    await put(world, "a-selected", SKIPPED, KEPT)
    await eventually(lambda: work.calls[-1] == (set(), {"a-selected"}))
    assert not split.owns("a-selected")
    replicas.lost = True
    with pytest.raises(LeaseLost):
        split.check()


async def test_kymas_that_are_selected_together_are_begun_with_in_one_go(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Begun()
    split = SelectedKymas(Replicas(), LABELS)
    handlers: list[Handler[Kyma]] = []
    monkeypatch.setattr(world.manager.informer(KYMAS), "on_change", handlers.append)
    split.follow(world.manager)
    await split.run(work)
    work.calls.clear()
    (follow,) = handlers
    selected = [builders.kyma(f"a{each}", labels=LABELS | SKIPPED, annotations=KEPT) for each in range(100)]
    for each in selected:
        follow(Change(builders.kyma(each.metadata.name), each))
    follow(Change(selected[0], builders.kyma("a0")))  # and back again
    await eventually(lambda: bool(work.calls))
    assert work.calls == [({each.metadata.name for each in selected[1:]}, {"a0"})]


async def test_events_of_other_kymas_are_those_of_an_unknown_runtime(world: World) -> None:
    latency = ChangeLatency(CollectorRegistry(), ManualClock())
    split = SelectedKymas(Replicas(), LABELS)
    publisher = EventPublisher(world.manager, latency, selects=split.selects)
    await put(world, "a-selected", LABELS | SKIPPED, KEPT)
    await put(world, "a-other", {}, {})
    await eventually(lambda: len(world.manager.informer(KYMAS).list()) == 2)

    def verified(kyma: str) -> VerifiedEvent:
        event = decode_event(msgspec.json.encode({"operation": "RESYNC"}))
        return VerifiedEvent(kyma, names.LIFECYCLE_MANAGER, event, datetime.now(UTC))

    assert [each.metadata.name for each in publisher.kymas_of(verified("a-selected"))] == ["a-selected"]
    with pytest.raises(UnknownRuntime):
        publisher.kymas_of(verified("a-other"))


async def test_work_begins_again_where_the_lease_is_deleted_after_an_outage(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.kcp.create(LEASES, {"metadata": {"name": LEASE}}, KCP, field_manager="test")
    lease, regained = FormerLease(world.manager, world.kcp), list[str]()
    lease.when_regained(lambda: regained.append("again"))
    await lease.wait()
    assert lease.is_held
    monkeypatch.setattr("kyma_takeover.lease.elapsed", lambda: float("inf"))  # it was not renewed for long
    assert not lease.is_held
    await world.kcp.delete(LEASES, LEASE, KCP)
    await lease.wait()
    assert lease.is_held
    assert regained == ["again"]


def test_fleet_is_split_by_an_option_alone() -> None:
    def settings(*labels: str) -> Settings:
        given: dict[str, Any] = {"kyma_selector": labels}
        return Settings(given)

    replicas = Replicas()
    whole = FROM_GO.sharding(settings(), replicas)
    assert isinstance(whole, WholeFleet)
    assert whole.replicas is replicas
    assert isinstance(FROM_GO.sharding(settings("example.com/by=python"), replicas), SelectedKymas)
    with pytest.raises(SettingsInvalid, match="expected key=value"):
        settings("example.com/by in (python)")


def labels_of_adopt(given: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str] | None:
    """Return the labels by which `klm adopt --kyma-selector` selects Kymas."""
    scopes: list[tuple[object, object, dict[str, str] | None]] = []
    monkeypatch.setattr(steps, "AdoptionScope", lambda *scope: scopes.append(scope))
    monkeypatch.setattr(running, "run", lambda *_: None)
    adopt(["demo"], kyma_selector=[given])
    ((_, _, found),) = scopes
    return found


def test_labels_are_read_by_klm_adopt_as_by_klm_run(monkeypatch: pytest.MonkeyPatch) -> None:
    two = {"example.com/by": "python", "region": "eu"}
    assert labels_of_adopt("example.com/by=python,region=eu", monkeypatch) == two


@pytest.mark.parametrize("given", ["", ",", "=python", "by", "example com/by=python", "by=in eu"])
def test_labels_that_no_kyma_can_have_are_refused(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(typer.BadParameter, match="expected key=value"):
        labels_of_adopt(given, monkeypatch)


@pytest.mark.parametrize(
    ("labels", "annotations", "paused", "kept"),
    [
        ({}, {}, False, False),
        (SKIPPED, {}, True, False),
        (SKIPPED, KEPT, False, True),
        (SKIPPED, {**KEPT, names.PAUSED_AT: "2026-11-22T12:00:00+00:00"}, True, True),
        ({}, {**KEPT, names.PAUSED_AT: "2026-11-22T12:00:00+00:00"}, False, False),
    ],
)
def test_label_of_the_former_version_is_no_pause(
    labels: dict[str, str], annotations: dict[str, str], *, paused: bool, kept: bool
) -> None:
    metadata = builders.kyma(labels=labels, annotations=annotations).metadata
    assert (metadata.is_paused, metadata.is_kept_from_former_version) == (paused, kept)
