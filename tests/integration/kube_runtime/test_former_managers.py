"""What another field manager has applied becomes this one's: no field stays that nobody applies any more."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kube_runtime import Applier, Client, ClientOptions, InventoryEntry, RuntimeMetrics, parse_objects
from tests.integration.kube_runtime.things import as_text
from tests.kinds import DEPLOYMENTS

pytestmark = pytest.mark.parametrize("kcp", ["real", "simulated"], indirect=True)
FORMER = "former-applier"


def deployment(namespace: str, *, with_sidecar: bool) -> dict[str, Any]:
    """Return a Deployment, with a sidecar, a volume and a variable that a later version does not have."""
    manager: dict[str, Any] = {"name": "manager", "image": "manager:1"}
    pod: dict[str, Any] = {"containers": [manager]}
    if with_sidecar:
        pod["containers"] = [
            {**manager, "env": [{"name": "OLD", "value": "1"}], "volumeMounts": [{"name": "ssl", "mountPath": "/ssl"}]},
            {"name": "sidecar", "image": "sidecar:1"},
        ]
        pod["volumes"] = [{"name": "ssl", "emptyDir": {}}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "manager", "namespace": namespace, **({"labels": {"of": FORMER}} if with_sidecar else {})},
        "spec": {
            "selector": {"matchLabels": {"app": "manager"}},
            "template": {"metadata": {"labels": {"app": "manager"}}, "spec": pod},
        },
    }


def entry_of(namespace: str) -> InventoryEntry:
    return InventoryEntry("apps", "v1", "Deployment", namespace, "manager")


@pytest.fixture
def metrics() -> RuntimeMetrics:
    return RuntimeMetrics()


@pytest.fixture
async def counted(kcp: Path, metrics: RuntimeMetrics) -> AsyncIterator[Client]:
    options = ClientOptions(qps=0, timeout_seconds=60, metrics=metrics)
    async with await Client.from_environment(kcp, options=options) as client:
        yield client


def writes(metrics: RuntimeMetrics) -> float:
    return sum(
        sample.value
        for family in metrics.collect()
        if family.name == "rest_client_requests"
        for sample in family.samples
        if sample.name.endswith("_total") and sample.labels["method"] == "PATCH"
    )


async def former_deployment(client: Client, namespace: str) -> dict[str, Any]:
    document = deployment(namespace, with_sidecar=True)
    return await client.apply(DEPLOYMENTS, "manager", document, namespace, field_manager=FORMER)


def check_taken_over(live: dict[str, Any], before: dict[str, Any]) -> None:
    """Check that the object is the same one, and has nothing left of the former version."""
    assert live["metadata"]["uid"] == before["metadata"]["uid"]
    pod = live["spec"]["template"]["spec"]
    assert [each["name"] for each in pod["containers"]] == ["manager"]
    assert not pod.get("volumes")
    assert "env" not in pod["containers"][0]
    assert "volumeMounts" not in pod["containers"][0]
    assert "labels" not in live["metadata"]
    assert [each["manager"] for each in live["metadata"]["managedFields"]] == ["applier"]


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "unknown"])
async def test_fields_of_a_former_manager_that_are_no_longer_applied_are_removed(
    counted: Client, namespace: str, metrics: RuntimeMetrics, is_known: bool
) -> None:
    before = await former_deployment(counted, namespace)
    began = writes(metrics)
    applier = Applier(counted, field_manager="applier", former_managers=[FORMER])
    inventory = [entry_of(namespace)] if is_known else []

    result = await applier.apply(parse_objects(as_text(deployment(namespace, with_sidecar=False))), inventory)

    result.raise_first_failure()
    check_taken_over(await counted.get(DEPLOYMENTS, "manager", namespace), before)
    assert writes(metrics) - began == (2 if is_known else 3)


async def test_unchanged_object_is_taken_over_without_another_generation(counted: Client, namespace: str) -> None:
    before = await former_deployment(counted, namespace)
    applier = Applier(counted, field_manager="applier", labels={"of": "applier"}, former_managers=[FORMER])
    objects = parse_objects(as_text(deployment(namespace, with_sidecar=True)))

    await applier.apply(objects, [entry_of(namespace)])

    live = await counted.get(DEPLOYMENTS, "manager", namespace)
    kept = ("uid", "generation")
    assert [live["metadata"][key] for key in kept] == [before["metadata"][key] for key in kept]
    assert live["metadata"]["labels"] == {"of": "applier"}
    assert [each["manager"] for each in live["metadata"]["managedFields"]] == ["applier"]


async def test_object_without_a_former_manager_costs_no_more_requests(
    counted: Client, namespace: str, metrics: RuntimeMetrics
) -> None:
    objects = parse_objects(as_text(deployment(namespace, with_sidecar=False)))
    await Applier(counted, field_manager="applier", former_managers=[FORMER]).apply(objects)
    assert writes(metrics) == 1

    again = await Applier(counted, field_manager="applier", former_managers=[FORMER]).apply(
        objects, [entry_of(namespace)]
    )

    assert [each.action for each in again.outcomes] == ["unchanged"]
    assert writes(metrics) == 1
