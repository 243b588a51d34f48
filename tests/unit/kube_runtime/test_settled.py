"""Whether an apply would change nothing, held against a simulated server that applies it."""

from typing import Any

import pytest

from kube_runtime import Applier, Client, KubernetesObject, Resource
from kube_runtime.apply.settled import is_settled
from kube_simulation import SimulatedCluster, Simulation
from tests.cpu_time import is_linear
from tests.kinds import CONFIG_MAPS, SERVICES

MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}, "data": {"a": "1"}}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "s", "namespace": "default", "labels": {"app": "s"}},
    "spec": {"selector": {"app": "s"}, "ports": [{"name": "web", "port": 443, "protocol": "TCP", "targetPort": 8443}]},
}


SPEC: Any = SERVICE["spec"]


def changed(document: dict[str, Any], **sections: Any) -> dict[str, Any]:
    return {**document, **sections}


@pytest.mark.parametrize(
    ("resource", "applied", "wanted", "settled"),
    [
        (CONFIG_MAPS, MAP, MAP, True),
        (SERVICES, SERVICE, SERVICE, True),
        (CONFIG_MAPS, MAP, changed(MAP, data={"a": "2"}), False),
        (CONFIG_MAPS, MAP, changed(MAP, data={"a": "1", "b": "2"}), False),
        (CONFIG_MAPS, changed(MAP, data={"a": "1", "b": "2"}), MAP, False),
        (SERVICES, SERVICE, changed(SERVICE, spec={"selector": {"app": "s"}}), False),
        (
            SERVICES,
            SERVICE,
            changed(SERVICE, spec={**SPEC, "ports": [{"port": 443, "protocol": "TCP", "targetPort": 8443}]}),
            False,
        ),
        (
            SERVICES,
            SERVICE,
            changed(SERVICE, spec={**SPEC, "ports": [*SPEC["ports"], {"name": "b", "port": 1}]}),
            False,
        ),
        (SERVICES, SERVICE, changed(SERVICE, metadata={"name": "s", "namespace": "default"}), False),
    ],
)
async def test_apply_that_would_change_nothing_is_recognized_by_the_object(
    client: Client, resource: Resource[Any], applied: dict[str, Any], wanted: dict[str, Any], settled: bool
) -> None:
    name = applied["metadata"]["name"]
    live = await client.apply(resource, name, applied, "default", field_manager="mine")
    assert is_settled(live, wanted, "mine") is settled
    assert not is_settled(live, wanted, "another")
    again = await client.apply(resource, name, wanted, "default", field_manager="mine")
    assert (again["metadata"]["resourceVersion"] == live["metadata"]["resourceVersion"]) is settled


async def test_new_process_writes_nothing_that_is_so_already_and_mends_what_is_not(
    client: Client, simulation: Simulation, cluster: SimulatedCluster
) -> None:
    objects = [KubernetesObject.of(SERVICE), KubernetesObject.of(MAP)]
    first = await Applier(client, field_manager="mine").apply(objects)
    before = simulation.records.count
    second = await Applier(client, field_manager="mine").apply(objects, first.inventory)
    assert {outcome.action for outcome in second.outcomes} == {"unchanged"}
    assert not cluster.requests(lambda record: record.is_write, since=before)
    patch = {"data": {"a": "edited"}}
    await client.merge_patch(CONFIG_MAPS, "m", patch, "default", field_manager="kubectl-edit")
    third = await Applier(client, field_manager="mine").apply(objects, first.inventory)
    assert sorted(outcome.action for outcome in third.outcomes) == ["changed", "unchanged"]


@pytest.mark.parametrize(
    "fields",
    ["f:data", ["f:data"], {"f:data": "all"}, {"f:data": {"k:{": {}}}, {"k:[1]": {}}],
    ids=str,
)
def test_what_is_no_set_of_fields_settles_nothing(fields: Any) -> None:
    owned = {"manager": "us", "operation": "Apply", "fieldsV1": fields}
    live = changed(MAP, metadata={"name": "m", "managedFields": [owned]})
    assert not is_settled(live, MAP, "us")


@pytest.mark.parametrize("group", ["example.com", "apps", "networking.k8s.io"])
def test_null_settles_only_kinds_that_do_not_keep_it(group: str) -> None:
    wanted = {"apiVersion": f"{group}/v1", "kind": "Some", "metadata": {"name": "some"}, "spec": {"a": 1, "b": None}}
    owned = {"manager": "us", "operation": "Apply", "fieldsV1": {"f:spec": {"f:a": {}}}}
    live = changed(wanted, metadata={"name": "some", "managedFields": [owned]}, spec={"a": 1})
    assert is_settled(live, wanted, "us") is (group != "example.com")


def test_empty_map_that_others_have_filled_is_owned() -> None:
    owned = {"manager": "us", "operation": "Apply", "fieldsV1": {"f:immutable": {}}}
    live = changed(MAP, metadata={"name": "m", "managedFields": [owned]}, immutable=False)
    assert not is_settled(live, changed(MAP, immutable=False, data={}), "us")
    assert is_settled(live, {key: value for key, value in live.items() if key != "data"}, "us")


def test_fields_that_somebody_says_are_owned_are_compared_in_linear_time() -> None:
    spec = {"ports": [{"name": f"p{number}"} for number in range(40)]}
    document = changed(SERVICE, spec=spec)

    def live(size: int) -> dict[str, Any]:
        made_up: dict[str, Any] = {f'k:{{"name":"p0","x{number}":0}}': {} for number in range(size)}
        entry = {
            "manager": "me",
            "operation": "Apply",
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:ports": made_up}},
        }
        metadata: Any = SERVICE["metadata"]
        return changed(document, metadata={**metadata, "managedFields": [entry]})

    assert not is_settled(live(30_000), document, "me")
    assert is_linear(lambda live: is_settled(live, document, "me"), live, size=2_000)
