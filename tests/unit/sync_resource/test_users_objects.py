"""What users create while the outcome of an apply is not known stays theirs; a namespace they delete comes back."""

from datetime import UTC, datetime

import pytest

from kube_runtime import Forbidden, NotFound, ServerUnavailable
from kube_simulation import Answer, ApiRequest, Refuse, Rule, Simulation
from kube_simulation.refusals import Refused
from kube_simulation.rules import Proceed
from lifecycle_manager.contract.resources import SYNC_RESOURCES
from lifecycle_manager.skr.failure import SkrFailure
from lifecycle_manager.sync_resource.status import unreachable
from lifecycle_manager_api import State, find, names
from tests import builders
from tests.kinds import CONFIG_MAPS, NAMESPACES
from tests.unit.sync_resource.clusters import KCP, SKR, Syncing
from tests.unit.sync_resource.test_written_objects import remove
from tests.waiting import is_gone


def is_applied(request: ApiRequest) -> bool:
    return (request.verb, request.name) == ("apply", "mine")


def is_namespace(request: ApiRequest) -> bool:
    return request.verb == "create" and request.kind is not None and request.kind.kind == "Namespace"


async def stays_theirs(world: Syncing, namespace: str) -> None:
    """Check that the SyncResource is in force, and that the users' object outlives it."""
    assert await world.reason("m") == "ObjectsReady"
    await remove(world)
    assert not await is_gone(world.skr.get(CONFIG_MAPS, "mine", namespace))


async def test_object_that_users_create_while_a_webhook_fails_stays_theirs(
    world: Syncing, simulation: Simulation
) -> None:
    await world.write("m", "mine")
    with simulation.cluster("skr").ruled_by(Refuse(is_applied)), pytest.raises(ServerUnavailable):
        await world.reconcile("m")
    document = {"metadata": {"name": "mine", "namespace": SKR}, "data": {"mine": "1"}}
    await world.skr.create(CONFIG_MAPS, document, SKR, field_manager="user")
    await world.reconcile("m")
    await stays_theirs(world, SKR)


async def test_object_that_users_create_while_it_is_being_applied_stays_theirs(
    world: Syncing, simulation: Simulation
) -> None:
    """Nothing is known of it before the API server has the apply."""

    class UserIsFaster(Rule):
        async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
            if is_applied(request) and await is_gone(world.skr.get(CONFIG_MAPS, "mine", SKR)):
                await world.skr.create(CONFIG_MAPS, {"metadata": {"name": "mine"}}, SKR, field_manager="user")
            return await proceed()

    await world.write("m", "mine")
    with simulation.cluster("skr").ruled_by(UserIsFaster()):
        await world.reconcile("m")
    await stays_theirs(world, SKR)


async def test_object_is_created_where_the_server_takes_no_version_of_a_new_one(
    world: Syncing, simulation: Simulation
) -> None:
    """As Kubernetes did of Services (kubernetes/kubernetes#106745), and servers of further APIs may."""
    message = "resourceVersion should not be set on objects to be created"
    refused = Refuse(is_applied, times=1, refused=Refused(500, "InternalError", message))
    await world.write("m", "mine")
    with simulation.cluster("skr").ruled_by(refused):
        await world.reconcile("m")
    assert await world.reason("m") == "ObjectsReady"


async def test_object_that_users_create_with_its_refused_namespace_stays_theirs(
    world: Syncing, simulation: Simulation
) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine, namespace: shop}\n"
    await world.write("m", resource=text, annotations={names.CREATE_NAMESPACES: "true"})
    refused = Refuse(is_namespace, refused=Refused(403, "Forbidden", "a policy"))
    with simulation.cluster("skr").ruled_by(refused), pytest.raises(Forbidden):
        await world.reconcile("m")
    await world.skr.create(NAMESPACES, {"metadata": {"name": "shop"}}, field_manager="user")
    document = {"metadata": {"name": "mine", "namespace": "shop"}, "data": {"mine": "1"}}
    await world.skr.create(CONFIG_MAPS, document, "shop", field_manager="user")
    await world.reconcile("m")
    await stays_theirs(world, "shop")


async def test_object_that_is_refused_again_and_again_has_nothing_written(world: Syncing) -> None:
    await world.write("m", resource="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine, namespace: shop}\n")
    for _ in range(2):
        with pytest.raises(NotFound):
            await world.reconcile("m")
    first = await world.kcp.get(SYNC_RESOURCES, "m", KCP)
    for _ in range(3):
        with pytest.raises(NotFound):
            await world.reconcile("m")
    assert await world.kcp.get(SYNC_RESOURCES, "m", KCP) == first
    await remove(world)


async def test_object_that_may_not_even_be_read_blocks_no_removal(world: Syncing, simulation: Simulation) -> None:
    """Nothing of it was ever written."""
    await world.write("m", "mine")
    no_right = Refuse(lambda it: it.name == "mine", refused=Refused(403, "Forbidden", "no right"))
    with simulation.cluster("skr").ruled_by(no_right):
        for _ in range(2):
            with pytest.raises(Forbidden):
                await world.reconcile("m")
        await remove(world)


async def test_users_object_is_released_once_it_may_be_read_again(world: Syncing, simulation: Simulation) -> None:
    """With the marks of the module left on it, its next removal would delete it."""
    document = {"metadata": {"name": "mine", "namespace": SKR}, "data": {"mine": "1"}}
    await world.skr.create(CONFIG_MAPS, document, SKR, field_manager="user")
    await world.write("m", "mine")
    await world.reconcile("m")
    await world.kcp.delete(SYNC_RESOURCES, "m", KCP)
    no_right = Refuse(lambda it: it.name == "mine", refused=Refused(403, "Forbidden", "no right for a while"))
    with simulation.cluster("skr").ruled_by(no_right):
        for _ in range(2):
            with pytest.raises(Forbidden):
                await world.reconcile("m")
    await world.reconcile("m")
    assert await is_gone(world.kcp.get(SYNC_RESOURCES, "m", KCP))
    left = await world.skr.get(CONFIG_MAPS, "mine", SKR)
    assert names.MANAGED_BY not in (left["metadata"].get("labels") or {})


async def test_refused_deletion_is_reported(world: Syncing, simulation: Simulation) -> None:
    await world.write("m", "mine")
    await world.reconcile("m")
    await world.kcp.delete(SYNC_RESOURCES, "m", KCP)
    denied = Refused(403, "Forbidden", "admission webhook 'keep' denied the request: it is in use")
    rule = Refuse(lambda it: (it.verb, it.name) == ("delete", "mine"), refused=denied)
    with simulation.cluster("skr").ruled_by(rule), pytest.raises(Forbidden):
        await world.reconcile("m")
    status = (await world.kcp.get(SYNC_RESOURCES, "m", KCP)).status
    ready = find(status.conditions, "Ready")
    assert ready is not None
    assert "denied the request: it is in use" in ready.message
    assert status.state is State.DELETING


def test_deletion_in_a_cluster_that_does_not_answer_stays_one() -> None:
    now = datetime.now(UTC)
    resource = builders.sync_resource(deletionTimestamp=now)
    status = unreachable(resource, SkrFailure("SKRUnreachable", "no answer"), now)
    assert status.state is State.DELETING


async def test_namespace_that_users_delete_is_created_again(world: Syncing) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: shop}\n"
    await world.write("m", resource=text, annotations={names.CREATE_NAMESPACES: "true"})
    await world.reconcile("m")
    await world.skr.delete(CONFIG_MAPS, "one", "shop")
    await world.skr.delete(NAMESPACES, "shop")
    with pytest.raises(NotFound):
        await world.reconcile("m")
    await world.reconcile("m")
    assert await world.reason("m") == "ObjectsReady"
