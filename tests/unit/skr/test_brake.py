"""The brake on deletions: its rule, and that no object is forgotten while Secrets, CRDs and Kymas come and go."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from kube_runtime import SYSTEM_CLOCK, NotFound, NotServed
from lifecycle_manager import sync_resource
from lifecycle_manager.contract.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    KYMAS,
    MODULE_CONFIGS,
    MODULE_POLICIES,
    SECRETS,
    SYNC_RESOURCES,
)
from lifecycle_manager.options.clusters import BrakeSettings
from lifecycle_manager.process.telemetry import ChangeLatency
from lifecycle_manager.skr.brake import (
    AT_ONCE_SECONDS,
    Deletion,
    DeletionBrake,
    is_of_former_crd,
    judge,
)
from lifecycle_manager.skr.removals import continued_removal
from lifecycle_manager.sync_resource import SyncResourceSettings
from lifecycle_manager_api import ObjectMeta, SyncResource, find, names
from lifecycle_manager_api.documents import plain
from tests import builders
from tests.kinds import CONFIG_MAPS
from tests.policies import ANYTHING
from tests.world import KCP, SKR, World, key_of, open_world

SETTINGS = BrakeSettings(grace_seconds=60.0, max_percent=10, min_clusters=3)
ONE = Deletion(kyma="demo", began=builders.NOW, clusters=100, deleting=1)
TERMINATING = replace(ONE, crds=("CRD kymas.operator.kyma-project.io",))


@pytest.mark.parametrize(
    ("seen", "waits_for", "may_forget"),
    [
        (ONE, "", False),
        (TERMINATING, "CRD kymas", False),
        (replace(ONE, deleting=10), "", False),
        (replace(ONE, deleting=11), "11 of 100 clusters", False),
        (replace(ONE, clusters=4, deleting=3), "", False),
        (replace(ONE, clusters=4, deleting=4), "4 of 4 clusters", False),
        (replace(ONE, missing_for=59.9), "access Secret", False),
        (replace(ONE, missing_for=60.0), "", True),
        (replace(ONE, missing_for=600.0, without_access=11), "11 of 100 clusters have no access", False),
        (replace(TERMINATING, continued_at=builders.NOW), "", False),
        (replace(TERMINATING, continued_at=builders.NOW, missing_for=0.0), "", True),
        (replace(TERMINATING, continued_at=builders.NOW - timedelta(seconds=1)), "CRD kymas", False),
    ],
)
def test_deletion_is_held(seen: Deletion, waits_for: str, *, may_forget: bool) -> None:
    brake = judge(seen, SETTINGS)
    assert brake.may_forget is may_forget
    assert (brake.hold is not None) == bool(waits_for)
    assert brake.hold is None or waits_for in brake.hold.waits_for


class Deleting:
    """A world with Kymas, each of which has one SyncResource with one ConfigMap in its cluster."""

    def __init__(self, world: World) -> None:
        self.world = world
        latency = ChangeLatency(CollectorRegistry(), SYSTEM_CLOCK)
        sync_resource.setup(world.manager, world.connections, latency, SyncResourceSettings(brake=SETTINGS))

    async def install(self, *kymas: str) -> None:
        policy = {"metadata": {"name": "keda"}, "spec": plain(ANYTHING)}
        await self.world.kcp.apply(MODULE_POLICIES, "keda", policy, KCP, field_manager="test")
        for name in kymas:
            await self.world.register(name, "keda")
            await self.world.introduced(name)
            await self.world.without_parts(name=name)
            text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: ours, namespace: {SKR}}}\n"
            document = {"metadata": {"name": name}, "spec": {"kyma": name, "module": "keda", "resource": text}}
            await self.world.kcp.create(SYNC_RESOURCES, document, KCP, field_manager="team")
            await self.reconcile(name)

    async def reconcile(self, name: str) -> None:
        await self.world.turn("sync-resource", key_of(name))

    async def condition(self, name: str = "demo") -> tuple[str, str]:
        item: SyncResource = await self.world.kcp.get(SYNC_RESOURCES, name, KCP)
        found = find(item.status.conditions, "Ready")
        assert found is not None
        return found.reason, found.message

    async def is_forgotten(self, name: str = "demo") -> bool:
        """Tell whether the object is in the cluster, and nothing in KCP knows it."""
        try:
            await self.world.kcp.get(SYNC_RESOURCES, name, KCP)
        except (NotFound, NotServed):
            return await self.has_object(name)
        return False

    async def has_object(self, name: str = "demo") -> bool:
        return bool((await (await self.world.skr(name)).list(CONFIG_MAPS, SKR)).items)

    async def give_access(self, name: str = "demo") -> None:
        marks = {names.KYMA_NAME: name, names.MANAGED_BY: names.LIFECYCLE_MANAGER}
        secret = {"metadata": {"name": f"kubeconfig-{name}", "labels": marks}, "data": self.world.access(name)}
        await self.world.kcp.create(SECRETS, secret, KCP, field_manager="broker")

    async def empty(self, name: str) -> None:
        await self.world.kcp.merge_patch(SYNC_RESOURCES, name, {"spec": {"resource": "# nothing\n"}}, KCP)
        await self.reconcile(name)

    async def continue_deletion(self, name: str, *, days: int = 100_000) -> None:
        at = (self.world.clock.now() + timedelta(days=days)).isoformat(timespec="seconds")
        patch: dict[str, Any] = {"metadata": {"annotations": {names.CONTINUE_DELETION: at}}}
        await self.world.kcp.merge_patch(KYMAS, name, patch, KCP, field_manager="klm")


async def test_texts_that_lost_all_objects_in_one_cluster_after_the_other_are_held() -> None:
    async with open_world(brake=SETTINGS) as world:
        deleting = Deleting(world)
        clusters = ("a", "b", "c", "d", "e")
        await deleting.install(*clusters)
        for name in clusters:
            await world.kcp.merge_patch(SYNC_RESOURCES, name, {"spec": {"resource": "# nothing\n"}}, KCP)
            await deleting.reconcile(name)
        assert [await deleting.has_object(name) for name in clusters] == [False, False, False, True, True]
        reason, message = await deleting.condition("d")
        assert (reason, "4 of 5 clusters" in message) == ("DeletionHeld", True)
        await deleting.continue_deletion("d")
        await deleting.reconcile("d")
        assert not await deleting.has_object("d")
        held: SyncResource = await world.kcp.get(SYNC_RESOURCES, "e", KCP)
        restarted = DeletionBrake.watched_by(world.manager, world.connections, SETTINGS)
        assert restarted.of_text(held).hold is not None, "it has counted none, and the status says that it is held"
        world.clock.advance(2 * AT_ONCE_SECONDS)
        await deleting.reconcile("e")
        assert await deleting.has_object("e")
        await deleting.continue_deletion("e")
        await deleting.reconcile("e")
        assert not await deleting.has_object("e")


async def test_removal_that_was_continued_goes_on_after_a_restart_and_after_hours() -> None:
    async with open_world(brake=SETTINGS) as world:
        deleting = Deleting(world)
        await deleting.install("a", "b", "c", "d", "e")
        for name in ("a", "b", "c", "d", "e"):
            await deleting.empty(name)
        held: SyncResource = await world.kcp.get(SYNC_RESOURCES, "d", KCP)
        assert held.status.emptied_at == world.clock.now().replace(microsecond=0)
        world.clock.advance(60)
        await deleting.continue_deletion("d", days=0)
        await world.sync_caches()
        for hours in (0, 2, 48):
            world.clock.advance(3600 * hours)
            brake = DeletionBrake.watched_by(world.manager, world.connections, SETTINGS)
            assert brake.of_text(held).hold is None, "another process knows what was continued"
        other: SyncResource = await world.kcp.get(SYNC_RESOURCES, "e", KCP)
        assert brake.of_text(other).hold is not None, "nobody has continued this one"
        await deleting.reconcile("d")
        assert not await deleting.has_object("d")


async def test_later_removal_is_held_and_counted_with_those_that_another_process_did() -> None:
    async with open_world(brake=SETTINGS) as world:
        deleting = Deleting(world)
        await deleting.install("a", "b", "c", "d")
        await deleting.continue_deletion("d", days=0)
        for name in ("a", "b", "c"):
            world.clock.advance(60)
            await deleting.empty(name)
        await world.kcp.merge_patch(SYNC_RESOURCES, "d", {"spec": {"resource": ""}}, KCP)
        await world.sync_caches()
        late: SyncResource = await world.kcp.get(SYNC_RESOURCES, "d", KCP)
        brake = DeletionBrake.watched_by(world.manager, world.connections, SETTINGS)
        hold = brake.of_text(late).hold
        assert hold is not None, "d was continued before its text was emptied"
        assert "4 of 4 clusters" in hold.waits_for
        world.clock.advance(AT_ONCE_SECONDS)
        assert brake.of_text(late).hold is None, "the others are not of the same hour"


async def test_text_that_has_objects_again_is_held_no_more() -> None:
    async with open_world(brake=SETTINGS) as world:
        deleting = Deleting(world)
        clusters = ("a", "b", "c", "d")
        await deleting.install(*clusters)
        before = (await world.kcp.get(SYNC_RESOURCES, "d", KCP)).spec.resource
        for name in clusters:
            await world.kcp.merge_patch(SYNC_RESOURCES, name, {"spec": {"resource": ""}}, KCP)
            await deleting.reconcile(name)
        assert (await deleting.condition("d"))[0] == "DeletionHeld"
        await world.kcp.merge_patch(SYNC_RESOURCES, "d", {"spec": {"resource": before}}, KCP)
        await deleting.reconcile("d")
        assert (await deleting.condition("d"))[0] != "DeletionHeld"
        world.clock.advance(2 * AT_ONCE_SECONDS)
        await world.kcp.merge_patch(SYNC_RESOURCES, "d", {"spec": {"resource": ""}}, KCP)
        await deleting.reconcile("d")
        assert not await deleting.has_object("d")


async def test_access_secret_that_is_created_again_has_nothing_forgotten() -> None:
    async with open_world(brake=SETTINGS) as world:
        deleting = Deleting(world)
        await deleting.install("demo")
        await world.kcp.delete(SYNC_RESOURCES, "demo", KCP)
        await world.kcp.delete(KYMAS, "demo", KCP)
        for seconds in (1, 59, 59, 30):
            await world.kcp.delete(SECRETS, "kubeconfig-demo", KCP)
            await deleting.reconcile("demo")
            await world.reconcile()
            world.clock.advance(seconds)
            await deleting.reconcile("demo")
            await world.reconcile()
            assert not await deleting.is_forgotten()
            assert (await deleting.condition())[0] == "AccessSecretMissing"
            await deleting.give_access()
            await world.sync_caches()
        await deleting.reconcile("demo")
        assert not await deleting.has_object()
        await world.reconcile(times=5)
        assert not (await world.kcp.list(KYMAS, KCP)).items


async def test_cluster_without_access_for_the_grace_time_counts_as_deleted() -> None:
    async with open_world(brake=SETTINGS) as world:
        deleting = Deleting(world)
        await deleting.install("demo")
        await world.kcp.delete(SYNC_RESOURCES, "demo", KCP)
        await world.kcp.delete(SECRETS, "kubeconfig-demo", KCP)
        await deleting.reconcile("demo")
        world.clock.advance(SETTINGS.grace_seconds)
        await deleting.reconcile("demo")
        assert await deleting.is_forgotten()


@pytest.mark.parametrize("crd", [SYNC_RESOURCES, MODULE_CONFIGS, KYMAS])
async def test_crd_that_is_being_deleted_deletes_nothing_until_an_operator_continues(crd: Any) -> None:
    async with open_world(brake=SETTINGS) as world:
        deleting = Deleting(world)
        await deleting.install("demo")
        held = {"metadata": {"finalizers": ["example.com/instances"]}}
        await world.kcp.merge_patch(CUSTOM_RESOURCE_DEFINITIONS, crd.plural_name, held)
        await world.kcp.delete(CUSTOM_RESOURCE_DEFINITIONS, crd.plural_name)
        await world.kcp.delete(SYNC_RESOURCES, "demo", KCP)
        await world.kcp.delete(KYMAS, "demo", KCP)
        for _ in range(3):
            await deleting.reconcile("demo")
            await world.reconcile()
        assert await deleting.has_object()
        reason, message = await deleting.condition()
        assert (reason, crd.plural_name in message) == ("DeletionHeld", True)
        kyma = find((await world.in_kcp()).status.conditions, "Ready")
        assert kyma is not None
        assert kyma.reason == "DeletionHeld"
        await deleting.continue_deletion("demo")
        await deleting.reconcile("demo")
        assert not await deleting.has_object()
        await world.reconcile(times=5)
        assert not (await world.kcp.list(KYMAS, KCP)).items


@pytest.mark.parametrize(
    ("created", "deleted", "is_held"),
    [(-10, -1, True), (-10, 3599, True), (-10, 3600, False), (1, 2, False), (-10, None, False)],
)
def test_sync_resource_that_went_with_a_crd_is_known_after_that_was_created_again(
    created: int, deleted: int | None, *, is_held: bool
) -> None:
    now = builders.NOW
    metadata = ObjectMeta(
        name="one",
        creation_timestamp=now + timedelta(seconds=created),
        deletion_timestamp=now + timedelta(seconds=deleted) if deleted is not None else None,
    )
    assert is_of_former_crd(metadata, {"metadata": {"creationTimestamp": now.isoformat()}}) is is_held


async def test_deletions_in_too_many_clusters_are_held_until_an_operator_continues_each() -> None:
    kymas = ("one", "two", "three", "four", "five")
    async with open_world(brake=SETTINGS) as world:
        deleting = Deleting(world)
        await deleting.install(*kymas)
        for name in kymas:
            await world.kcp.delete(SYNC_RESOURCES, name, KCP)
        for name in kymas:
            await deleting.reconcile(name)
        assert [await deleting.has_object(name) for name in kymas] == [True] * 5
        assert "5 of 5 clusters" in (await deleting.condition("one"))[1]
        await deleting.continue_deletion("one")
        await world.kcp.merge_patch(SYNC_RESOURCES, "two", {"metadata": {"finalizers": []}}, KCP, field_manager="admin")
        world.clock.advance(1)
        for name in kymas:
            await deleting.reconcile(name)
        assert [await deleting.has_object(name) for name in kymas] == [False, *[True] * 4], "three are left, and held"
        for name in kymas[2:]:
            await deleting.continue_deletion(name)
            await deleting.reconcile(name)
        assert [await deleting.has_object(name) for name in kymas[2:]] == [False] * 3


async def test_module_team_can_not_continue_its_own_deletions_nor_hold_those_of_others() -> None:
    kymas = ("one", "two", "three", "four", "five")
    async with open_world(brake=SETTINGS) as world:
        deleting = Deleting(world)
        await deleting.install(*kymas)
        at = (world.clock.now() + timedelta(days=100_000)).isoformat()
        annotated = {"metadata": {"annotations": {names.CONTINUE_DELETION: at}}}
        for name in kymas:
            await world.kcp.merge_patch(SYNC_RESOURCES, name, annotated, KCP, field_manager="team")
            await world.kcp.delete(SYNC_RESOURCES, name, KCP)
        for name in kymas:
            await deleting.reconcile(name)
        assert await deleting.has_object("one")
        await world.kcp.delete(KYMAS, "one", KCP)
        await deleting.reconcile("one")
        assert not await deleting.has_object("one"), "its Kyma is deleted, and no other one is"
        await world.reconcile("one", times=5)
        assert "one" not in {each.metadata.name for each in (await world.kcp.list(KYMAS, KCP)).items}


async def test_deletions_that_are_stuck_since_yesterday_hold_none_of_today() -> None:
    yesterday = builders.NOW - timedelta(days=1)
    async with open_world() as world:
        brake = DeletionBrake.watched_by(world.manager, world.connections, SETTINGS)
        stuck = [builders.kyma(f"stuck-{number}", deletionTimestamp=yesterday) for number in range(9)]
        today = [builders.kyma(f"today-{number}", deletionTimestamp=builders.NOW) for number in range(4)]
        for each in (*stuck, *today[:3]):
            brake.kymas.cache.put(key_of(each.metadata.name), each)
        assert brake.of("today-0", today[0], has_objects=False).hold is None
        assert brake.of("stuck-0", stuck[0], has_objects=False).hold is not None
        brake.kymas.cache.put(key_of("today-3"), today[3])
        world.clock.advance(1)
        assert brake.of("today-0", today[0], has_objects=False).hold is not None


NAMES = tuple(f"kyma-{number}" for number in range(9))
BY_USERS: dict[str, Any] = {"annotations": {names.REMOVED_BY_USERS: "true"}, "deletionTimestamp": builders.NOW}


async def test_modules_that_users_remove_are_not_held_and_hold_nothing(world: World) -> None:
    brake = DeletionBrake.watched_by(world.manager, world.connections, SETTINGS)
    for name in NAMES:
        brake.kymas.cache.put(key_of(name), builders.kyma(name))
        removed = builders.manifest("keda", kyma=name, **BY_USERS)
        brake.manifests.cache.put(key_of(removed.metadata.name), removed)
        assert brake.of(name, removed, has_objects=False).hold is None
    deleted = builders.kyma(NAMES[0], deletionTimestamp=builders.NOW)
    brake.kymas.cache.put(key_of(NAMES[0]), deleted)
    assert brake.of(NAMES[0], deleted, has_objects=False).hold is None, "one Kyma is deleted in KCP"
    for name in NAMES[1:5]:
        other = builders.manifest("other", kyma=name, deletionTimestamp=builders.NOW)
        brake.manifests.cache.put(key_of(other.metadata.name), other)
    world.clock.advance(1)
    assert brake.of(NAMES[1], other, has_objects=False).hold is not None, "those that KCP causes are counted"
    assert brake.of(NAMES[8], removed, has_objects=False).hold is None


async def test_kymas_whose_deletion_users_block_hold_nothing(world: World) -> None:
    brake = DeletionBrake.watched_by(world.manager, world.connections, SETTINGS)
    for name in NAMES:
        stuck = {"type": "Ready", "status": "False", "reason": "DeletionStuck", "message": "waits for module keda"}
        status = {"state": "Warning", "conditions": [stuck]}
        kyma = builders.kyma(name, status=status, deletionTimestamp=builders.NOW)
        brake.kymas.cache.put(key_of(name), kyma)
        part = builders.manifest("keda", kyma=name, deletionTimestamp=builders.NOW)
        brake.manifests.cache.put(key_of(part.metadata.name), part)
    assert brake.of(NAMES[0], kyma, has_objects=False).hold is None


@pytest.mark.parametrize(("state", "is_held"), [("Warning", False), ("Deleting", True)])
async def test_kyma_stays_held_by_what_its_status_says_since_its_deletion(
    world: World, state: str, *, is_held: bool
) -> None:
    brake = DeletionBrake.watched_by(world.manager, world.connections, SETTINGS)
    status = {"state": state, "conditions": [builders.condition("Ready", "DeletionHeld", generation=2)]}
    edited: dict[str, Any] = {"generation": 3, "deletionTimestamp": builders.NOW}  # its spec was edited since
    kyma = builders.kyma(NAMES[0], status=status, **edited)
    brake.kymas.cache.put(key_of(NAMES[0]), kyma)
    assert (brake.of(NAMES[0], kyma, has_objects=False).hold is not None) is is_held


@pytest.mark.parametrize("is_by_users", [True, False])
async def test_objects_made_from_module_crs_that_users_delete_hold_nothing(world: World, *, is_by_users: bool) -> None:
    brake = DeletionBrake.watched_by(world.manager, world.connections, SETTINGS)
    for name in NAMES:
        brake.kymas.cache.put(key_of(name), builders.kyma(name))
        mark: dict[str, Any] = BY_USERS if is_by_users else {"deletionTimestamp": builders.NOW}
        config = builders.module_config(name=name, kyma=name, **mark)
        brake.module_configs.cache.put(key_of(name), config)
        made = builders.sync_resource(name=name, kyma=name, deletionTimestamp=builders.NOW)
        brake.sync_resources.cache.put(key_of(name), made)
    assert (brake.of(NAMES[0], made, has_objects=False).hold is None) is is_by_users


CHANGED, DELETED = builders.NOW - timedelta(hours=1), builders.NOW + timedelta(seconds=3)
CONTINUED: dict[str, Any] = {"annotations": {names.CONTINUE_DELETION: builders.NOW.isoformat()}}
SINCE: dict[str, Any] = {"annotations": {names.REMOVED_SINCE: CHANGED.isoformat()}}


@pytest.mark.parametrize(
    ("mark", "kyma", "is_held"),
    [(SINCE, CONTINUED, False), (SINCE, {}, True), ({}, CONTINUED, True)],
    ids=["continued", "nobody continued it", "deleted for another reason"],
)
async def test_removal_that_an_operator_continued_is_not_held_again_in_its_clusters(
    world: World, mark: dict[str, Any], kyma: dict[str, Any], *, is_held: bool
) -> None:
    for _ in range(2):  # another process finds the same
        brake = DeletionBrake.watched_by(world.manager, world.connections, SETTINGS)
        for name in NAMES:
            brake.kymas.cache.put(key_of(name), builders.kyma(name, **kyma))
            removed = builders.manifest("keda", kyma=name, deletionTimestamp=DELETED, **mark)
            brake.manifests.cache.put(key_of(removed.metadata.name), removed)
            made = builders.sync_resource(name=name, kyma=name, module="keda", deletionTimestamp=DELETED)
            brake.sync_resources.cache.put(key_of(name), made)
        assert (brake.of(NAMES[0], removed, has_objects=False).hold is not None) is is_held
        assert (brake.of(NAMES[0], made, has_objects=False).hold is not None) is is_held
        world.clock.advance(2 * AT_ONCE_SECONDS)


@pytest.mark.parametrize(
    ("until", "now", "is_continued"),
    [
        (builders.NOW, DELETED, True),
        (CHANGED - timedelta(seconds=1), DELETED, False),
        (builders.NOW, builders.NOW + timedelta(days=7), False),
        (None, DELETED, False),
    ],
)
def test_word_of_an_operator_is_about_the_removal_that_waited_then(
    until: datetime | None, now: datetime, *, is_continued: bool
) -> None:
    annotations = {} if until is None else {names.CONTINUE_DELETION: until.isoformat()}
    kyma = ObjectMeta(name="demo", annotations=annotations)
    assert continued_removal(CHANGED, kyma, now) == (CHANGED if is_continued else None)
