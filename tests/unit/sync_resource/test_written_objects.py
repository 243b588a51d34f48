"""An object that was written although its apply failed in the end: it is recorded, and what users had stays theirs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from kube_runtime import KubeError
from kube_simulation import ApiRequest, Rule, Simulation
from kube_simulation.requests import Answer
from kube_simulation.rules import Proceed
from lifecycle_manager.contract.resources import SYNC_RESOURCES
from tests.integration.kube_runtime.things import as_text, definition
from tests.kinds import CRDS, DEPLOYMENTS
from tests.unit.sync_resource.clusters import KCP, SKR, Syncing
from tests.waiting import is_gone


def deployment(image: str) -> dict[str, Any]:
    labels = {"app": "shop"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "shop", "image": image}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shop", "namespace": SKR}, "spec": spec}


class StatusInBetween(Rule):
    """A controller of the cluster writes the status between the apply and the request after it, once."""

    def __init__(self, world: Syncing) -> None:
        self.world, self.written = world, False

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        if request.verb == "patch" and request.name == "shop" and not (request.subresource or self.written):
            self.written, status = True, {"status": {"observedGeneration": 2}}
            await self.world.skr.merge_patch(DEPLOYMENTS, "shop", status, SKR, subresource="status")
        return await proceed()


class Changed(Rule):
    """Changes the answers to applies of one object."""

    def __init__(self, name: str, change: Callable[[Answer], Answer]) -> None:
        self.name, self.change = name, change

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        answer = await proceed()
        return self.change(answer) if (request.verb, request.name) == ("apply", self.name) else answer


def with_names_taken(answer: Answer) -> Answer:
    refused = {"type": "NamesAccepted", "status": "False", "reason": "PluralConflict", "message": "they are in use"}
    return replace(answer, body=msgspec.json.encode({**answer.document(), "status": {"conditions": [refused]}}))


def unreadable(answer: Answer) -> Answer:
    return replace(answer, body=b"it was done")


async def fails(world: Syncing, simulation: Simulation, rule: Rule) -> None:
    with simulation.cluster("skr").ruled_by(rule), pytest.raises(KubeError):
        await world.reconcile("m")


async def remove(world: Syncing) -> None:
    await world.kcp.delete(SYNC_RESOURCES, "m", KCP)
    while not await is_gone(world.kcp.get(SYNC_RESOURCES, "m", KCP)):
        await world.reconcile("m")


async def test_deployment_of_users_stays_theirs_where_its_first_apply_was_overtaken(
    world: Syncing, simulation: Simulation
) -> None:
    await world.skr.create(DEPLOYMENTS, deployment("mine:1"), SKR, field_manager="kubectl-client-side-apply")
    await world.write("m", resource=as_text(deployment("theirs:1")))
    rule = StatusInBetween(world)
    await fails(world, simulation, rule)
    assert rule.written
    await world.reconcile("m")
    assert [each.name for each in (await world.kcp.get(SYNC_RESOURCES, "m", KCP)).status.found] == ["shop"]
    await remove(world)
    assert not await is_gone(world.skr.get(DEPLOYMENTS, "shop", SKR))


@pytest.mark.parametrize("change", [with_names_taken, unreadable])
async def test_object_that_was_created_and_then_failed_goes_with_its_sync_resource(
    world: Syncing, simulation: Simulation, change: Callable[[Answer], Answer]
) -> None:
    name = definition()["metadata"]["name"]
    await world.write("m", resource=as_text(definition()))
    await fails(world, simulation, Changed(name, change))
    await remove(world)
    assert await is_gone(world.skr.get(CRDS, name))
