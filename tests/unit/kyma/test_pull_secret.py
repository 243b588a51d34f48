"""The image pull Secret of SKRs: copied from KCP, rotated, corrected, refused and removed."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kube_simulation import ApiRequest, Refuse, Refused
from lifecycle_manager.contract.resources import KYMAS, SECRETS, Secret
from lifecycle_manager.kyma.pull_secret import RETRY_SECONDS
from lifecycle_manager_api import Condition, find, names
from tests import builders
from tests.kinds import NAMESPACES
from tests.waiting import is_gone
from tests.world import KCP, SKR, World, open_world

NAME = "registry-login"
OVER_QUOTA = Refused(403, "Forbidden", 'secrets "registry-login" is forbidden: exceeded quota: no-secrets')


def written(password: str, **more: Any) -> dict[str, Any]:
    data = {".dockerconfigjson": base64.b64encode(password.encode()).decode()}
    return {"metadata": {"name": NAME, **more}, "type": "kubernetes.io/dockerconfigjson", "data": data}


@asynccontextmanager
async def introduced(*, with_secret: bool = True) -> AsyncIterator[World]:
    async with open_world(pull_secret=NAME) as world:
        if with_secret:
            marks = {"labels": {"app": "registry"}, "annotations": {"note": "of the control plane"}}
            await world.kcp.create(SECRETS, written("first", **marks), KCP, field_manager="operator")
        await world.register()
        await world.introduced()
        await world.reconcile()
        yield world


async def copy(world: World) -> Secret:
    return await (await world.skr()).get(SECRETS, NAME, SKR)


async def password(world: World) -> str:
    return base64.b64decode((await copy(world)).data[".dockerconfigjson"]).decode()


async def synced(world: World) -> Condition:
    condition = find((await world.in_kcp()).status.conditions, "SKRImagePullSecretSync")
    assert condition is not None
    return condition


def writes_secrets(request: ApiRequest) -> bool:
    return request.is_write and "/secrets" in request.path


async def test_cluster_gets_the_data_of_the_secret_and_nothing_else_of_it() -> None:
    async with introduced() as world:
        found = await copy(world)
        assert found.type == "kubernetes.io/dockerconfigjson"
        assert await password(world) == "first"
        assert found.metadata.labels == {names.MANAGED_BY: names.LIFECYCLE_MANAGER, names.WATCHED_BY: "kyma"}
        assert not found.metadata.annotations
        condition = await synced(world)
        assert (condition.status, condition.reason) == ("True", "Ready")
        before = world.requests
        await world.reconcile(times=2)
        assert world.writes_to("demo", before) == []


async def test_what_others_do_to_the_copy_is_corrected_at_the_interval() -> None:
    async with introduced() as world:
        skr = await world.skr()
        patch = {"data": written("stolen")["data"]}
        await skr.merge_patch(SECRETS, NAME, patch, SKR, field_manager="user")
        world.clock.advance(300)
        await world.reconcile()
        assert await password(world) == "first"
        await skr.delete(SECRETS, NAME, SKR)
        world.clock.advance(300)
        await world.reconcile()
        assert await password(world) == "first"


async def test_copy_that_users_delete_with_its_namespace_is_written_again_with_the_kyma_cr() -> None:
    """The Kyma says that its cluster has the Secret, which holds no more."""
    async with introduced() as world:
        await (await world.skr()).delete(NAMESPACES, SKR)
        await world.reconcile()
        assert await password(world) == "first"


async def test_secret_of_that_name_becomes_the_lifecycle_managers() -> None:
    async with introduced(with_secret=False) as world:
        await (await world.skr()).create(SECRETS, written("theirs"), SKR, field_manager="user")
        await world.kcp.create(SECRETS, written("ours"), KCP, field_manager="operator")
        await world.reconcile()
        assert await password(world) == "ours"


async def test_cluster_whose_quota_refuses_it_keeps_its_modules_and_says_why() -> None:
    async with open_world(pull_secret=NAME) as world:
        await world.kcp.create(SECRETS, written("first"), KCP, field_manager="operator")
        await world.offer(builders.template(installs=True), builders.release(regular="0.1.0"))
        await world.register("demo", "cloud-resources")
        with world.cluster("demo").ruled_by(Refuse(writes_secrets, refused=OVER_QUOTA)):
            await world.introduced()
            result = await world.reconcile()
        condition = await synced(world)
        assert (condition.status, condition.reason) == ("False", "ImagePullSecretRefused")
        assert "exceeded quota" in condition.message
        shown = find((await world.in_skr()).status.conditions, "SKRImagePullSecretSync")
        assert shown is not None
        assert shown.message == condition.message
        assert (await world.manifests()) == {"demo-cloud-resources": "0.1.0"}
        assert result.requeue_after is not None
        assert result.requeue_after <= RETRY_SECONDS
        world.clock.advance(RETRY_SECONDS)
        await world.reconcile()
        assert (await synced(world)).status == "True"
        assert await password(world) == "first"


async def test_copy_stays_where_a_policy_refuses_to_write_it() -> None:
    async with introduced() as world:
        why = "ValidatingAdmissionPolicy 'labels' with binding 'all' denied request: the label team is missing"
        denied = Refused(422, "Invalid", f"secrets is forbidden: {why}", {"causes": [{"message": why}]})
        is_refused = Refuse(lambda request: request.verb != "delete" and writes_secrets(request), refused=denied)
        world.clock.advance(300)
        with world.cluster("demo").ruled_by(is_refused):
            await world.reconcile()
            assert "the label team is missing" in (await synced(world)).message
            assert await password(world) == "first"


async def test_secret_that_kcp_does_not_have_is_awaited() -> None:
    async with introduced(with_secret=False) as world:
        condition = await synced(world)
        assert (condition.status, condition.reason) == ("False", "ImagePullSecretMissing")
        assert KCP not in str((await world.in_skr()).status)
        await world.kcp.create(SECRETS, written("late"), KCP, field_manager="operator")
        await world.reconcile()
        assert await password(world) == "late"
        await world.kcp.delete(SECRETS, NAME, KCP)
        await world.reconcile()
        assert (await synced(world)).reason == "ImagePullSecretMissing"
        assert await password(world) == "late"  # Pods may still need it


async def test_copy_goes_with_the_kyma_although_kcp_has_lost_the_secret() -> None:
    async with introduced() as world:
        await world.kcp.delete(SECRETS, NAME, KCP)
        await world.reconcile()
        assert (await synced(world)).status == "False"
        await world.kcp.delete(KYMAS, "demo", KCP)
        await world.without_parts()
        await world.reconcile(times=3)
        assert await is_gone(world.in_kcp())
        assert await is_gone(copy(world))


async def test_secret_of_users_stays_where_kcp_never_had_one_of_that_name() -> None:
    async with introduced(with_secret=False) as world:
        await (await world.skr()).create(SECRETS, written("mine"), SKR, field_manager="user")
        await world.reconcile()
        assert (await synced(world)).status == "False"
        await world.kcp.delete(KYMAS, "demo", KCP)
        await world.without_parts()
        await world.reconcile(times=3)
        assert await is_gone(world.in_kcp())
        assert await password(world) == "mine"


async def test_kyma_goes_from_a_cluster_where_secrets_are_forbidden() -> None:
    async with introduced(with_secret=False) as world:
        forbidden = Refused(403, "Forbidden", 'secrets "registry-login" is forbidden: User "lm" cannot get them')
        with world.cluster("demo").ruled_by(Refuse(lambda request: "/secrets" in request.path, refused=forbidden)):
            await world.kcp.create(SECRETS, written("first"), KCP, field_manager="operator")
            await world.reconcile()
            assert (await synced(world)).reason == "ImagePullSecretRefused"
            await world.kcp.delete(KYMAS, "demo", KCP)
            await world.without_parts()
            await world.reconcile(times=3)
            assert await is_gone(world.in_kcp())


async def test_copy_that_may_only_be_deleted_goes_with_the_kyma() -> None:
    async with introduced() as world:
        unreadable = Refuse(
            lambda request: request.verb == "get" and "/secrets" in request.path,
            refused=Refused(403, "Forbidden", 'secrets "registry-login" is forbidden: User "lm" cannot get them'),
        )
        await world.kcp.delete(KYMAS, "demo", KCP)
        await world.without_parts()
        with world.cluster("demo").ruled_by(unreadable):
            await world.reconcile(times=3)
            assert await is_gone(world.in_kcp())
        assert await is_gone(copy(world))
