"""The status of Module CRs on simulated clusters: what is written when, and what is left to others."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kube_runtime import KubeError, Result
from kube_simulation import Refuse, Refused, Simulation
from lifecycle_manager.contract.owned_fields import MODULE_CR_STATUS_MANAGER
from lifecycle_manager.contract.resources import MODULE_CONFIGS
from lifecycle_manager.contract.signals import ClusterReachable, ClusterReplaced
from lifecycle_manager.module_cr_status.rules import ACCESS_SECONDS, SETTLING_SECONDS
from lifecycle_manager.module_cr_status.schema import KEPT_SECONDS
from lifecycle_manager.module_cr_status.snapshot import REFUSED_SECONDS
from lifecycle_manager.skr.access import AccessSecretMissing
from tests import builders
from tests.clusters import simulated_clusters
from tests.kinds import INFRASTRUCTURES
from tests.unit.module_cr_status.clusters import (
    KCP,
    NAME,
    SKR,
    TOO_WIDE,
    Statuses,
    crd,
    is_status_write,
    ready_of,
    status_properties,
)

ATOMIC = {each: value for each, value in status_properties()["conditions"].items() if "list" not in each}
"""Conditions that have one owner, as Telemetry's."""
OF_OPERATOR = {
    "type": "Healthy",
    "status": "False",
    "reason": "NotYet",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


@pytest.fixture
async def bare(simulation: Simulation) -> AsyncIterator[Statuses]:
    """A world whose SKR has no CRD yet."""
    async with simulated_clusters(simulation) as (kcp, skr):
        world = Statuses(kcp, skr)
        async with world.process():
            yield world


@pytest.fixture
async def world(bare: Statuses) -> Statuses:
    await bare.install(crd())
    return bare


async def test_change_in_force_is_one_write(world: Statuses, simulation: Simulation) -> None:
    await world.edit("10.0.0.0/8")
    result = await world.reconcile()
    assert result.requeue_after == 1.0
    await world.render()
    await world.reconcile()
    await world.applied()
    await world.reconcile()
    status = await world.status()
    assert (status["state"], status["observedGeneration"]) == ("Ready", 1)
    assert ready_of(status) == ("True", "Applied", "1 object is applied and ready", 1)
    await world.report()
    await world.reconcile()
    assert len(simulation.requests(is_status_write)) == 1
    assert world.events.in_skr == [("Applied", "1 object is applied and ready")]


async def test_change_that_takes_longer_is_processing_first(world: Statuses, simulation: Simulation) -> None:
    await world.in_force("10.0.0.0/8")
    await world.edit("10.1.0.0/16")
    await world.reconcile()
    world.clock.advance(1.1)
    result = await world.reconcile()
    status = await world.status()
    assert (status["state"], status["observedGeneration"]) == ("Processing", 2)
    assert ready_of(status) == ("False", "WaitingForModuleManager", "waits for the module manager", 2)
    assert result.requeue_after is None
    await world.render()
    await world.reconcile()  # what it waits for is reported again only after a while
    await world.applied()
    await world.reconcile()
    assert ((await world.status())["state"], len(simulation.requests(is_status_write))) == ("Ready", 3)
    assert [reason for reason, _ in world.events.in_skr] == ["Applied", "Waiting", "Applied"]


async def test_time_of_the_transition_stays_while_the_status_does(world: Statuses) -> None:
    await world.in_force("10.0.0.0/8")
    before = (await world.status())["conditions"]
    world.clock.advance(60)
    await world.in_force("10.1.0.0/16")
    after = (await world.status())["conditions"]
    assert after[0]["lastTransitionTime"] == before[0]["lastTransitionTime"]
    assert after[0]["observedGeneration"] == 2


async def test_restart_writes_and_says_nothing(world: Statuses, simulation: Simulation) -> None:
    await world.in_force("10.0.0.0/8")
    writes, events = len(simulation.requests(is_status_write)), list(world.events.in_skr)
    async with world.process():
        world.clock.advance(60)
        await world.reconcile()
        assert (len(simulation.requests(is_status_write)), world.events.in_skr) == (writes, events)
        await world.in_force("10.1.0.0/16")
        assert (await world.status())["observedGeneration"] == 2


async def test_replaced_cluster_gets_the_status_again(world: Statuses) -> None:
    await world.in_force("10.0.0.0/8")
    await world.operator_writes({"state": None, "conditions": None, "observedGeneration": None})
    await world.reconcile(ClusterReplaced("demo"))
    assert (await world.status())["state"] == "Ready"


async def test_end_of_an_outage_is_no_news(world: Statuses, simulation: Simulation) -> None:
    """By the time that the status could be written again, it would be outdated."""
    await world.in_force("10.0.0.0/8")
    writes = len(simulation.requests(is_status_write))
    unreachable = builders.condition("Synced", "ClusterUnreachable")
    await world.report(conditions=[unreachable])
    world.access = AccessSecretMissing("demo")
    await world.reconcile()
    world.clock.advance(600)
    world.access = None
    await world.reconcile(ClusterReachable("demo"))
    assert len(simulation.requests(is_status_write)) == writes
    world.clock.advance(ACCESS_SECONDS + 1)
    await world.reconcile()
    assert ready_of(await world.status())[1] == "ClusterNotAccessible"


async def test_status_that_an_operator_writes_is_left_alone(world: Statuses, simulation: Simulation) -> None:
    await world.edit("10.0.0.0/8")
    await world.operator_writes({"state": "Warning"})
    await world.in_force("10.0.0.0/8")
    assert await world.status() == {"state": "Warning"}
    writes = len(simulation.requests(is_status_write))
    await world.in_force("10.1.0.0/16")
    assert len(simulation.requests(is_status_write)) == writes


async def test_operator_that_begins_to_write_takes_the_status_over(world: Statuses) -> None:
    """What is left of ours would be stale for ever."""
    await world.in_force("10.0.0.0/8")
    await world.operator_writes({"state": "Warning"})
    await world.in_force("10.1.0.0/16")
    assert await world.status() == {"state": "Warning"}


async def test_answer_beside_an_operators_status_is_an_event(world: Statuses) -> None:
    await world.edit("0.0.0.0/0")
    await world.operator_writes({"state": "Ready"})
    await world.refuse(*TOO_WIDE)
    await world.reconcile()
    assert (await world.status(), world.events.in_skr) == (
        {"state": "Ready"},
        [("Refused", f"{TOO_WIDE[1]} ({TOO_WIDE[0]})")],
    )
    await world.in_force("10.0.0.0/8")
    assert [reason for reason, _ in world.events.in_skr] == ["Refused", "Applied"]


async def test_status_that_an_operator_has_removed_is_written_again(world: Statuses) -> None:
    """The module has moved to a Module Manager: nobody else would write the status any more."""
    await world.edit("10.0.0.0/8")
    await world.operator_writes({"state": "Warning"})
    await world.in_force("10.0.0.0/8")
    await world.operator_writes({"state": None})
    world.clock.advance(REFUSED_SECONDS)
    await world.in_force("10.1.0.0/16")
    assert (await world.status())["state"] == "Ready"


async def test_operator_keeps_no_condition_of_ours_among_its_own(bare: Statuses) -> None:
    """It writes the conditions that it finds with its own, as those with `SetStatusCondition` do."""
    await bare.install(crd({"state": {"type": "string"}, "conditions": ATOMIC}))
    await bare.in_force("10.0.0.0/8")
    ours = (await bare.status())["conditions"]
    await bare.operator_writes({"state": "Warning", "conditions": [*ours, OF_OPERATOR]})
    await bare.in_force("10.1.0.0/16")
    assert await bare.status() == {"state": "Warning", "conditions": [OF_OPERATOR]}
    async with bare.process():
        await bare.in_force("10.2.0.0/16")
        assert await bare.status() == {"state": "Warning", "conditions": [OF_OPERATOR]}


async def test_condition_that_an_operator_kept_goes_after_a_restart_too(bare: Statuses) -> None:
    await bare.install(crd({"state": {"type": "string"}, "conditions": ATOMIC}))
    await bare.in_force("10.0.0.0/8")
    (ours,) = (await bare.status())["conditions"]
    del ours["observedGeneration"]  # which the operator's type of a condition does not have
    await bare.operator_writes({"state": "Warning", "conditions": [ours, OF_OPERATOR]})
    async with bare.process():
        bare.clock.advance(60)
        await bare.reconcile()
        assert await bare.status() == {"state": "Warning", "conditions": [OF_OPERATOR]}


async def test_condition_of_an_operator_stays_where_ours_would_be_the_same(bare: Statuses) -> None:
    """Its kind has nothing more to say of a condition."""
    item = {"type": "object", "properties": {each: {"type": "string"} for each in ("type", "status")}}
    await bare.install(crd({"state": {"type": "string"}, "conditions": {"type": "array", "items": item}}))
    await bare.edit("10.0.0.0/8")
    written = {"state": "Warning", "conditions": [{"type": "Ready", "status": "True"}]}
    await bare.operator_writes(written)
    await bare.in_force("10.0.0.0/8")
    assert await bare.status() == written


async def test_state_that_the_kind_requires_stays_with_an_operator(bare: Statuses, simulation: Simulation) -> None:
    document = crd({"state": {"type": "string"}, "conditions": ATOMIC})
    document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["required"] = ["state"]
    await bare.install(document)
    await bare.in_force("10.0.0.0/8")
    written = {"state": "Ready", "conditions": [OF_OPERATOR]}
    await bare.operator_writes(written)
    await bare.in_force("10.1.0.0/16")
    assert await bare.status() == written
    writes = len(simulation.requests(is_status_write))
    await bare.in_force("10.2.0.0/16")
    assert len(simulation.requests(is_status_write)) == writes


async def test_object_created_again_never_gets_the_status_of_its_predecessor(world: Statuses) -> None:
    await world.in_force("10.0.0.0/8")
    await world.skr.delete(INFRASTRUCTURES, "default", SKR)
    await world.skr.apply(
        INFRASTRUCTURES, "default", {"metadata": {"name": "default"}, "spec": {}}, SKR, field_manager="user"
    )
    await world.refuse(*TOO_WIDE)
    await world.reconcile()
    assert await world.status() == {}
    await world.in_force("10.1.0.0/16")
    assert (await world.status())["state"] == "Ready"


async def test_deleted_module_cr_is_no_failure(world: Statuses) -> None:
    await world.in_force("10.0.0.0/8")
    await world.skr.delete(INFRASTRUCTURES, "default", SKR)
    await world.refuse(*TOO_WIDE)
    assert (await world.reconcile()) == Result()


@pytest.mark.parametrize("known", ["state", "observedGeneration", "conditions"])
async def test_only_the_fields_that_the_kind_has_are_written(bare: Statuses, known: str) -> None:
    await bare.install(crd({known: status_properties()[known]}))
    await bare.in_force("10.0.0.0/8")
    assert set(await bare.status()) == {known}


@pytest.mark.parametrize(
    ("states", "reported", "shown"),
    [
        (["Ready", "Error"], "Warning", "Error"),
        (["Deleting", "Ready", "Warning"], "Error", "Warning"),
        (["Deleting", "Ready", "Warning"], "Processing", "Warning"),
    ],
    ids=["no Warning", "as Telemetry, no Error", "as Telemetry, no Processing"],
)
async def test_state_that_the_kind_does_not_have_becomes_the_nearest_one(
    bare: Statuses, states: list[str], reported: str, shown: str
) -> None:
    await bare.install(crd({"state": {"type": "string", "enum": states}}))
    await bare.edit("10.0.0.0/8")
    await bare.report(state=reported)
    await bare.reconcile()
    bare.clock.advance(SETTLING_SECONDS + 1)
    await bare.reconcile()
    assert await bare.status() == {"state": shown}


@pytest.mark.parametrize("document", [crd({}), crd(subresource=False)], ids=["no fields", "no subresource"])
async def test_kind_without_status_gets_events(
    bare: Statuses, document: dict[str, Any], simulation: Simulation
) -> None:
    await bare.install(document)
    await bare.edit("0.0.0.0/0")
    await bare.reconcile()
    await bare.refuse(*TOO_WIDE)
    await bare.reconcile()
    await bare.reconcile()
    event = ("Refused", f"{TOO_WIDE[1]} ({TOO_WIDE[0]})")
    assert bare.events.in_skr == [event]
    async with bare.process():
        await bare.reconcile()
        assert bare.events.in_skr == [event]
    assert not simulation.requests(is_status_write)


async def test_crd_that_gets_a_status_is_found_later(bare: Statuses) -> None:
    await bare.install(crd({}))
    await bare.in_force("10.0.0.0/8")
    await bare.install(crd())
    bare.clock.advance(KEPT_SECONDS + 1)
    await bare.in_force("10.1.0.0/16")
    assert (await bare.status())["observedGeneration"] == 2


async def test_crd_that_loses_a_field_is_found_by_the_refusal(bare: Statuses) -> None:
    await bare.install(crd())
    await bare.in_force("10.0.0.0/8")
    conditions = {"conditions": status_properties()["conditions"]}
    await bare.install(crd(conditions))
    await bare.in_force("10.1.0.0/16")
    assert ready_of(await bare.status())[3] == 2


async def test_crd_is_read_once_for_a_kind(world: Statuses, simulation: Simulation) -> None:
    for number in range(5):
        await world.edit("10.0.0.0/8", f"cr-{number}", f"config-{number}")
        await world.reconcile(config=f"config-{number}")
    reads = simulation.requests(lambda it: it.cluster == "skr" and it.verb == "get" and "definitions" in it.path)
    assert len(reads) == 1


async def test_fields_of_the_module_manager_are_written_and_removed(world: Statuses) -> None:
    await world.install(crd({**status_properties(), "gateway": {"type": "string"}}))
    await world.edit("10.0.0.0/8")
    await world.render()
    await world.applied()
    await world.report(moduleStatus={"gateway": "10.0.0.1", "state": "Error", "unknown": 1})
    await world.reconcile()
    status = await world.status()
    assert (status["gateway"], status["state"], "unknown" in status) == ("10.0.0.1", "Ready", False)
    await world.report()
    await world.reconcile()
    assert "gateway" not in await world.status()


async def test_fields_of_the_module_manager_that_do_not_fit_are_left_out(
    world: Statuses, simulation: Simulation
) -> None:
    await world.install(crd({**status_properties(), "gateway": {"type": "string", "maxLength": 3}}))
    await world.edit("10.0.0.0/8")
    await world.render()
    await world.applied()
    await world.report(moduleStatus={"gateway": "10.0.0.1"})
    await world.reconcile()
    assert "gateway" not in await world.status()
    assert (await world.status())["state"] == "Ready"
    assert [reason for reason, _ in world.events.in_kcp] == ["ModuleStatusRefused"]
    writes = len(simulation.requests(is_status_write))
    await world.reconcile()
    assert len(simulation.requests(is_status_write)) == writes


async def test_missing_right_is_reported_once_and_not_retried(world: Statuses, simulation: Simulation) -> None:
    refused = Refused(403, "Forbidden", "infrastructures/status is forbidden")
    simulation.cluster("skr").add_rule(rule := Refuse(is_status_write, refused=refused))
    await world.in_force("10.0.0.0/8")
    await world.reconcile()
    world.clock.advance(60)
    await world.reconcile()
    assert [reason for reason, _ in world.events.in_kcp] == ["ModuleCRStatusNotWritten"]
    assert len(simulation.requests(is_status_write)) == 1
    world.clock.advance(REFUSED_SECONDS)
    await world.reconcile()
    assert len(simulation.requests(is_status_write)) == 2
    simulation.cluster("skr").remove_rule(rule)
    await world.in_force("10.1.0.0/16")
    assert (await world.status())["state"] == "Ready"


async def test_crd_that_may_not_be_read_is_tried(world: Statuses, simulation: Simulation) -> None:
    refused = Refused(403, "Forbidden", "customresourcedefinitions is forbidden")
    simulation.cluster("skr").add_rule(Refuse(lambda it: "definitions" in it.path, refused=refused))
    await world.in_force("10.0.0.0/8")
    assert (await world.status())["state"] == "Ready"


async def test_unforeseen_exception_is_reported(world: Statuses, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.edit("10.0.0.0/8")

    def broken(*_: object) -> None:
        raise AssertionError("a mistake in the program")

    monkeypatch.setattr(world, "to", broken)
    with pytest.raises(AssertionError):
        await world.reconcile()
    assert [reason for reason, _ in world.events.in_kcp] == ["ModuleCRStatusNotWritten"]


async def delete_config(world: Statuses, *, held: bool) -> None:
    """Delete the ModuleConfig; it stays for a while if `held`, as one with objects does."""
    if held:
        held_back = {"metadata": {"finalizers": ["example.com/objects"]}}
        await world.kcp.merge_patch(MODULE_CONFIGS, NAME, held_back, KCP)
    await world.kcp.delete(MODULE_CONFIGS, NAME, KCP)


@pytest.mark.parametrize("held", [True, False])
async def test_status_is_removed_from_a_module_cr_that_stays_without_its_module(world: Statuses, held: bool) -> None:
    await world.in_force("10.0.0.0/8")
    await delete_config(world, held=held)
    await world.reconcile()
    assert await world.status() == {}
    assert await world.reconcile() == Result()


async def test_module_cr_that_is_being_deleted_says_so_until_it_is_gone(world: Statuses) -> None:
    await world.in_force("10.0.0.0/8")
    held = {"metadata": {"finalizers": ["example.com/users"]}}
    await world.skr.merge_patch(INFRASTRUCTURES, "default", held, SKR, field_manager="user")
    await world.skr.delete(INFRASTRUCTURES, "default", SKR)
    await delete_config(world, held=True)
    await world.reconcile()
    status = await world.status()
    assert (status["state"], ready_of(status)[:2]) == ("Deleting", ("False", "Deleting"))
    await world.skr.merge_patch(INFRASTRUCTURES, "default", {"metadata": {"finalizers": []}}, SKR)
    await world.kcp.merge_patch(MODULE_CONFIGS, NAME, {"metadata": {"finalizers": []}}, KCP)
    assert await world.reconcile() == Result()


async def test_removal_of_the_status_is_tried_again_after_the_module_config_is_gone(
    world: Statuses, simulation: Simulation
) -> None:
    await world.in_force("10.0.0.0/8")
    await delete_config(world, held=False)
    with simulation.cluster("skr").ruled_by(Refuse(is_status_write)), pytest.raises(KubeError):
        await world.reconcile()
    assert (await world.status())["state"] == "Ready"
    await world.reconcile()
    assert await world.status() == {}


async def test_status_of_a_module_that_is_enabled_again_is_that_of_its_module_config(world: Statuses) -> None:
    await world.in_force("10.0.0.0/8")
    await delete_config(world, held=False)
    await world.reconcile()
    await world.in_force("10.0.0.0/8")
    assert (await world.status())["state"] == "Ready"


async def test_deleting_of_an_earlier_process_is_corrected_with_the_next_module_config(
    world: Statuses,
) -> None:
    await world.in_force("10.0.0.0/8")
    left = {"state": "Deleting", "observedGeneration": 1}
    await world.skr.apply(
        INFRASTRUCTURES,
        "default",
        {"metadata": {"name": "default"}, "status": left},
        SKR,
        field_manager=MODULE_CR_STATUS_MANAGER,
        subresource="status",
    )
    async with world.process():
        await world.in_force("10.0.0.0/8")
        assert (await world.status())["state"] == "Ready"
