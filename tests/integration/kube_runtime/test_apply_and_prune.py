"""Sets of objects go into a real cluster and out again, and nothing is written twice."""

from collections.abc import Mapping
from typing import Any

import pytest

from kube_runtime import (
    Applier,
    ApplyResult,
    Client,
    ClientOptions,
    InventoryEntry,
    JsonObject,
    NotFound,
    NotServed,
    RuntimeMetrics,
    parse_objects,
    readiness,
)
from kube_runtime.apply.objects import Identity
from tests.integration.kube_runtime.things import as_text, definition, thing
from tests.kinds import CONFIG_MAPS, NAMESPACES
from tests.modules import config_map
from tests.waiting import eventually

pytestmark = pytest.mark.parametrize("kcp", ["real", "simulated"], indirect=True)
LABELS = {"owned-by": "the-tests"}


def applier(client: Client, **options: Any) -> Applier:
    return Applier(client, field_manager="applier", labels=LABELS, **options)


def actions(result: ApplyResult) -> dict[str, str]:
    return {outcome.entry.name: outcome.action for outcome in result.outcomes}


async def test_objects_are_created_changed_left_alone_and_pruned(client: Client, namespace: str) -> None:
    applies = applier(client)
    first = parse_objects(as_text(config_map("a", namespace, x="1"), config_map("b", namespace, x="1")))
    result = await applies.apply(first)
    assert actions(result) == {"a": "created", "b": "created"}

    second = parse_objects(as_text(config_map("a", namespace, x="1"), config_map("c", namespace, x="1")))
    result = await applies.apply(second, result.inventory)
    assert actions(result) == {"a": "unchanged", "c": "created", "b": "pruned"}
    assert [entry.name for entry in result.inventory] == ["a", "c"]

    third = parse_objects(as_text(config_map("a", namespace, x="2"), config_map("c", namespace, x="1")))
    result = await applies.apply(third, result.inventory)
    assert actions(result) == {"a": "changed", "c": "unchanged"}
    live = {outcome.entry.name: outcome.live for outcome in result.outcomes}
    assert live["a"] is not None
    assert (live["a"]["data"], live["a"]["metadata"]["labels"]) == ({"x": "2"}, LABELS)


async def test_object_that_may_be_a_users_is_noted_before_it_is_written(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAPS, config_map("theirs", namespace, x="0"), namespace, field_manager="user")
    noted: dict[str, str] = {}

    async def note(existing: Mapping[InventoryEntry, JsonObject | None]) -> frozenset[Identity]:
        noted.update({entry.name: live["data"]["x"] for entry, live in existing.items() if live is not None})
        return frozenset(entry.identity for entry in existing)

    applies = applier(client)
    objects = parse_objects(as_text(config_map("theirs", namespace, x="1"), config_map("new", namespace, x="1")))
    entries = await applies.intended(objects, ())
    result = await applies.apply(objects, entries, new=entries, unsure=entries, note_existing=note)
    assert noted == {"theirs": "0"}
    assert actions(result) == {"theirs": "changed", "new": "created"}


async def test_unchanged_objects_are_read_and_not_written(kcp: Any, namespace: str) -> None:
    metrics = RuntimeMetrics()
    async with await Client.from_environment(kcp, options=ClientOptions(metrics=metrics)) as client:
        applies = applier(client)
        objects = parse_objects(as_text(*(config_map(f"cm-{number}", namespace) for number in range(5))))
        result = await applies.apply(objects)
        before = _requests(metrics)
        for _ in range(3):
            result = await applies.apply(objects, result.inventory)
        after = _requests(metrics)

    assert set(actions(result).values()) == {"unchanged"}
    assert after["PATCH"] == before["PATCH"] == 5
    assert after["GET"] - before["GET"] == 15


async def test_job_that_deletes_itself_once_it_is_done_runs_once(client: Client, namespace: str) -> None:
    def job(image: str) -> dict[str, Any]:
        pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": image}]}
        spec = {"ttlSecondsAfterFinished": 0, "template": {"spec": pod}}
        metadata = {"name": "once", "namespace": namespace}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}

    jobs = await client.mapper.resource("batch/v1", "Job")
    made = applier(client)
    first = await made.apply(parse_objects(as_text(job("x:1"))))
    await client.delete(jobs, "once", namespace)

    again = await made.apply(parse_objects(as_text(job("x:1"))), first.inventory)

    assert [each.action for each in again.outcomes] == ["unchanged"]
    assert (await client.list(jobs, namespace)).items == ()
    changed = await made.apply(parse_objects(as_text(job("x:2"))), again.inventory)
    assert [each.action for each in changed.outcomes] == ["created"]


@pytest.mark.parametrize("is_replaced", [False, True], ids=["same cluster", "other cluster"])
async def test_job_that_has_deleted_itself_does_not_run_again_for_another_process(
    client: Client, namespace: str, is_replaced: bool
) -> None:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x:1"}]}
    spec = {"ttlSecondsAfterFinished": 0, "template": {"spec": pod}}
    metadata = {"name": "once", "namespace": namespace}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    objects = parse_objects(as_text(job, config_map("a", namespace, x="1")))
    first = await applier(client).apply(objects)
    await client.delete(await client.mapper.resource("batch/v1", "Job"), "once", namespace)
    if is_replaced:
        await client.delete(CONFIG_MAPS, "a", namespace)

    second = applier(client)
    again = await second.apply(objects, first.inventory, repeated=True)
    later = await second.apply(objects, first.inventory)

    assert actions(again) == dict.fromkeys(("once", "a"), "created" if is_replaced else "unchanged")
    assert actions(later) == dict.fromkeys(("once", "a"), "unchanged")


async def test_drift_is_corrected_and_a_change_of_status_is_none(client: Client, namespace: str) -> None:
    applies = applier(client)
    objects = parse_objects(as_text(config_map("a", namespace, x="1")))
    result = await applies.apply(objects)
    await client.merge_patch(CONFIG_MAPS, "a", {"data": {"x": "tampered"}}, namespace)

    result = await applies.apply(objects, result.inventory)
    assert actions(result) == {"a": "changed"}
    assert (await client.get(CONFIG_MAPS, "a", namespace))["data"] == {"x": "1"}

    await client.delete(CONFIG_MAPS, "a", namespace)
    result = await applies.apply(objects, result.inventory)
    assert actions(result) == {"a": "created"}


async def test_object_that_another_has_made_so_stays_until_there_is_something_new_to_apply(
    client: Client, namespace: str
) -> None:
    applies = applier(client)
    objects = parse_objects(as_text(config_map("a", namespace, x="1")))
    result = await applies.apply(objects)
    await client.merge_patch(CONFIG_MAPS, "a", {"data": {"x": "theirs"}}, namespace)

    result = await applies.apply(objects, result.inventory, leave=lambda _, live: live["data"]["x"] == "theirs")
    assert actions(result) == {"a": "unchanged"}
    assert [each.live["data"] for each in result.outcomes if each.live] == [{"x": "theirs"}]

    newer = parse_objects(as_text(config_map("a", namespace, x="2")))
    result = await applies.apply(newer, result.inventory, leave=lambda _entry, _live: True)
    assert actions(result) == {"a": "changed"}


async def test_status_of_an_object_is_none_of_the_appliers_business(client: Client, namespace: str) -> None:
    applies = applier(client)
    await applies.apply(parse_objects(as_text(definition())))
    objects = parse_objects(as_text(thing("one", namespace, size=1)))
    result = await applies.apply(objects)
    resource = await client.mapper.resource("things.example.com/v1", "Thing")
    await client.merge_patch(resource, "one", {"status": {"phase": "Done"}}, namespace, subresource="status")

    result = await applies.apply(objects, result.inventory)

    assert actions(result) == {"one": "unchanged"}


async def test_new_process_takes_over_without_writing(client: Client, namespace: str) -> None:
    objects = parse_objects(as_text(config_map("a", namespace, x="1")))
    result = await applier(client).apply(objects)
    before = await client.get(CONFIG_MAPS, "a", namespace)

    result = await applier(client).apply(objects, result.inventory)

    assert actions(result) == {"a": "unchanged"}
    assert await client.get(CONFIG_MAPS, "a", namespace) == before


async def test_definition_and_its_objects_go_in_together(client: Client, namespace: str) -> None:
    kind, plural = f"Gadget{namespace[-8:]}", f"gadgets{namespace[-8:]}"
    text = as_text(thing("one", namespace, kind), definition(plural, kind), config_map("a", namespace))

    result = await applier(client).apply(parse_objects(text))

    assert [(outcome.index, outcome.action) for outcome in result.outcomes] == [
        (0, "created"),
        (1, "created"),
        (2, "created"),
    ]
    assert all(outcome.live is not None and readiness(outcome.live).state == "Current" for outcome in result.outcomes)


async def test_failure_of_one_object_keeps_nothing_back_and_prunes_nothing(client: Client, namespace: str) -> None:
    applies = applier(client)
    result = await applies.apply(parse_objects(as_text(config_map("a", namespace), config_map("old", namespace))))
    broken = as_text(
        config_map("a", namespace, x="1"), {**config_map("b", namespace), "data": 7}, thing("t", namespace, "Nothing")
    )

    result = await applies.apply(parse_objects(broken), result.inventory)

    assert actions(result) == {"a": "changed", "b": "failed", "t": "failed", "old": "kept"}
    assert {"a", "old"} <= {entry.name for entry in result.inventory}
    assert "t" not in {entry.name for entry in result.inventory}
    failed = {outcome.index: outcome.error for outcome in result.failed}
    assert failed[2] == "the cluster does not know the kind Nothing of things.example.com/v1"
    assert failed[1] == "data: expected map, got 7"


async def test_object_that_lost_our_label_is_not_deleted(client: Client, namespace: str) -> None:
    applies = applier(client)
    result = await applies.apply(parse_objects(as_text(config_map("a", namespace))))
    await client.merge_patch(CONFIG_MAPS, "a", {"metadata": {"labels": {"owned-by": "me"}}}, namespace)

    result = await applies.apply((), result.inventory)

    assert (actions(result), result.inventory) == ({"a": "released"}, ())
    assert await client.get(CONFIG_MAPS, "a", namespace)


async def test_deletion_waits_for_finalizers_by_saying_what_is_left(client: Client, namespace: str) -> None:
    applies = applier(client)
    held = config_map("held", namespace)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    result = await applies.apply(parse_objects(as_text(held, config_map("free", namespace))))

    result = await applies.delete(result.inventory)
    assert [entry.name for entry in result.inventory] == ["held"]
    result = await applies.delete(result.inventory)
    assert [entry.name for entry in result.inventory] == ["held"]

    await client.merge_patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, namespace)
    result = await applies.delete(result.inventory)
    assert result.inventory == ()


async def test_what_others_stand_on_is_deleted_last(client: Client, namespace: str) -> None:
    applies = applier(client)
    await applies.apply(parse_objects(as_text(definition())))
    held = thing("held", namespace)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    result = await applies.apply(parse_objects(as_text(config_map("below", namespace), held)))

    result = await applies.delete(result.inventory)

    assert actions(result) == {"held": "pruned", "below": "kept"}
    assert await client.get(CONFIG_MAPS, "below", namespace)


async def test_token_of_a_service_account_comes_after_the_account(client: Client, namespace: str) -> None:
    """kube-controller-manager deletes a token of a ServiceAccount that does not exist."""
    names = [f"account-{number}" for number in range(10)]
    tokens = [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/service-account-token",
            "metadata": {
                "name": each,
                "namespace": namespace,
                "annotations": {"kubernetes.io/service-account.name": each},
            },
        }
        for each in names
    ]
    accounts = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": each, "namespace": namespace}}
        for each in names
    ]

    result = await applier(client).apply(parse_objects(as_text(*tokens, *accounts)))

    revisions: dict[str, list[int]] = {"Secret": [], "ServiceAccount": []}
    for each in result.outcomes:
        assert each.live is not None
        revisions[each.entry.kind].append(int(each.live["metadata"]["resourceVersion"]))
    assert max(revisions["ServiceAccount"]) < min(revisions["Secret"])


async def test_namespace_is_filled_in_or_left_out_by_the_scope_of_the_kind(client: Client, namespace: str) -> None:
    unplaced = config_map("a", namespace)
    del unplaced["metadata"]["namespace"]
    misplaced = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{namespace}-x", "namespace": "no"}}

    result = await applier(client, default_namespace=namespace).apply(parse_objects(as_text(unplaced, misplaced)))

    assert [(entry.kind, entry.namespace) for entry in result.inventory] == [
        ("ConfigMap", namespace),
        ("Namespace", ""),
    ]


async def test_what_is_intended_can_be_recorded_first(client: Client, namespace: str) -> None:
    applies = applier(client)
    objects = parse_objects(as_text(config_map("a", namespace), config_map("b", namespace)))

    intended = await applies.intended(objects, ())
    result = await applies.apply((), intended)

    assert [entry.name for entry in intended] == ["a", "b"]
    assert result.inventory == ()


async def test_deleted_namespace_takes_its_time_and_is_waited_for(client: Client, namespace: str) -> None:
    applies = applier(client)
    text = as_text({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{namespace}-y"}})
    result = await applies.apply(parse_objects(text))
    await applies.delete(result.inventory)

    async def is_gone_or_terminating() -> bool:
        try:
            live = await client.get(NAMESPACES, f"{namespace}-y")
        except (NotFound, NotServed):
            return True
        return readiness(live).state == "Terminating"

    await eventually(is_gone_or_terminating)


def _requests(metrics: RuntimeMetrics) -> dict[str, float]:
    counted = {"GET": 0.0, "PATCH": 0.0}
    for family in metrics.collect():
        if family.name == "rest_client_requests":
            for sample in family.samples:
                counted[sample.labels["method"]] = counted.get(sample.labels["method"], 0) + sample.value
    return counted
