"""Of which kinds of objects the Watcher reports changes: those that modules have in the SKR, and no others."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from kube_runtime import Client
from kube_simulation import ApiRequest, Rule
from kube_simulation.refusals import unknown_path
from kube_simulation.requests import Answer
from kube_simulation.rules import Proceed
from lifecycle_manager.contract.resources import MODULE_POLICIES, SYNC_RESOURCES
from lifecycle_manager.contract.watchers import OBJECTS_WEBHOOK
from lifecycle_manager.skr_webhook.documents import (
    CHANGES_WHAT_WAS_APPLIED,
    ModuleRule,
    ObjectRules,
    webhook_document,
)
from lifecycle_manager.skr_webhook.object_rules import MAX_KINDS, ObjectRuleReader
from lifecycle_manager_api import names
from tests import builders
from tests.unit.skr_webhook.test_controller import SETTINGS, set_up
from tests.waiting import eventually
from tests.world import KCP, World, open_world

CONFIG_MAPS = ModuleRule("", "configmaps")
DEPLOYMENTS = ModuleRule("apps", "deployments")
WITHOUT_REVIEWS = "the cluster has no such API"


@dataclass(eq=False)
class Identity(Rule):
    user: Any = "system:serviceaccount:kube-system:lifecycle-manager"
    requests: list[str] = field(default_factory=list)

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        if not request.path.endswith("/selfsubjectreviews"):
            return await proceed()
        self.requests.append(request.path)
        if self.user is WITHOUT_REVIEWS:
            raise unknown_path()
        return Answer(201, msgspec.json.encode({"status": {"userInfo": {"username": self.user}}}))


@dataclass(eq=False)
class Reading:
    world: World
    skr: Client
    identity: Identity
    reader: ObjectRuleReader

    async def have(self, name: str, *kinds: str, module: str = "shop", kyma: str = "demo") -> None:
        """Have a SyncResource with an object of each kind, as `group/version/Kind`."""
        item = builders.sync_resource(name, kyma=kyma, module=module)
        await self.world.create(item)
        parts = [kind.rpartition("/") for kind in kinds]
        synced = [
            {"group": given.rpartition("/")[0], "version": given.rpartition("/")[2], "kind": kind, "namespace": "x"}
            | {"name": f"it-{number}"}
            for number, (given, _, kind) in enumerate(parts)
        ]
        status = {"status": {"synced": synced}}
        await self.world.kcp.merge_patch(SYNC_RESOURCES, name, status, KCP, subresource="status")

    async def rules(self) -> ObjectRules | None:
        await self.world.sync_caches()
        return await self.reader.read("demo", self.skr)


@asynccontextmanager
async def reading() -> AsyncGenerator[Reading, None]:
    async with open_world() as world:
        reader = ObjectRuleReader.watched_by(world.manager)
        identity = Identity()
        world.cluster("demo").add_rule(identity)
        yield Reading(world, await world.skr(), identity, reader)


async def test_kinds_are_those_of_the_inventories_of_the_kyma() -> None:
    async with reading() as it:
        assert await it.rules() is None
        assert not it.identity.requests, "a cluster without objects costs no request"
        await it.have("one", "v1/ConfigMap", "apps/v1/Deployment", "example.com/v1/Unknown")
        await it.have("two", "v1/ConfigMap", "admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration")
        await it.have("other", "v1/Secret", kyma="another")
        assert await it.rules() == ObjectRules((CONFIG_MAPS, DEPLOYMENTS), it.identity.user)
        await it.rules()
        assert len(it.identity.requests) == 1


async def test_module_is_left_out_by_its_policy() -> None:
    async with reading() as it:
        await it.have("one", "v1/ConfigMap", "apps/v1/Deployment")
        await it.have("two", "v1/ConfigMap", module="bakery")
        policy = {"metadata": {"name": "shop"}, "spec": {"repairOnEvents": False}}
        await it.world.kcp.apply(MODULE_POLICIES, "shop", policy, KCP, field_manager="test")
        assert await it.rules() == ObjectRules((CONFIG_MAPS,), it.identity.user, left_out=("shop",))


async def test_number_of_kinds_is_limited_and_common_kinds_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lifecycle_manager.skr_webhook.object_rules.MAX_KINDS", 1)
    assert MAX_KINDS < 100
    async with reading() as it:
        await it.have("one", "v1/ConfigMap", "apps/v1/Deployment")
        await it.have("two", "apps/v1/Deployment", module="bakery")
        assert await it.rules() == ObjectRules((DEPLOYMENTS,), it.identity.user)


@pytest.mark.parametrize("user", [None, "", 7, "x" * 1000, "new\nline", "Jörg", WITHOUT_REVIEWS])
async def test_cluster_that_names_no_usable_user_gets_no_rules(user: Any) -> None:
    """Without its name the changes of the Lifecycle Manager itself were reported."""
    async with reading() as it:
        it.identity.user = user
        await it.have("one", "v1/ConfigMap")
        assert await it.rules() is None
        assert await it.rules() is None
        assert len(it.identity.requests) == 1


def test_webhook_selects_objects_of_modules_and_names_our_user_as_text() -> None:
    rules = ObjectRules((CONFIG_MAPS,), 'x" || true || "\\', left_out=("bakery", "shop"))
    (webhook,) = [
        each
        for each in webhook_document([], [], b"trust", object_rules=rules)["webhooks"]
        if each["name"] == OBJECTS_WEBHOOK
    ]
    selector = webhook["objectSelector"]
    assert selector["matchLabels"] == {names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    assert selector["matchExpressions"] == [
        {"key": names.MODULE_NAME, "operator": "Exists"},
        {"key": names.MODULE_NAME, "operator": "NotIn", "values": ["bakery", "shop"]},
    ]
    assert [each["expression"] for each in webhook["matchConditions"]] == [
        r'request.userInfo.username != "x\" || true || \"\\"',
        CHANGES_WHAT_WAS_APPLIED,
    ]
    (rule,) = webhook["rules"]
    assert (rule["resources"], rule["operations"]) == (["configmaps"], ["UPDATE", "DELETE"])
    assert (webhook["failurePolicy"], webhook["timeoutSeconds"]) == ("Ignore", 2)


async def test_inventory_of_another_kind_enqueues_the_watcher(world: World) -> None:
    _, controller = set_up(world, world.manager, SETTINGS)
    await world.register()
    await world.sync_caches()
    controller.connect()
    it = Reading(world, await world.skr(), Identity(), ObjectRuleReader.watched_by(world.manager))
    await it.have("one", "v1/ConfigMap")
    await eventually(controller.queue.keys)
