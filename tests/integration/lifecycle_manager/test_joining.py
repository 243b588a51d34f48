"""A cluster joins and leaves the fleet by one command each; Lifecycle Manager renews its own token for it."""

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path

import pytest_asyncio

from kube_runtime import Client, dump_yaml, parse_objects
from kyma_demo.environment import Environment
from kyma_fleet.identities import SERVICE_ACCOUNTS, create_identity
from kyma_local.cluster import LocalCluster
from kyma_local.clusters import LocalClusters
from kyma_local.private_files import write_private
from lifecycle_manager.contract.conditions import REACHABLE
from lifecycle_manager.contract.resources import KYMAS, SECRETS, SYNC_RESOURCES
from lifecycle_manager.skr.token import Token, token_in, token_of, with_token
from lifecycle_manager_api import find, names
from tests import builders
from tests.integration.lifecycle_manager.signed_tokens import signed_token
from tests.kinds import CLUSTER_ROLE_BINDINGS, CONFIG_MAPS, WEBHOOKS
from tests.klm import Output, run_klm
from tests.waiting import eventually, is_gone

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
SECRET = "kubeconfig-joined"
ACCOUNT, NAMESPACE = "lifecycle-manager", "kube-system"
Klm = Callable[..., Awaitable[Output]]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cluster() -> AsyncIterator[LocalCluster]:
    async with LocalClusters.start(skrs=0) as clusters:
        yield clusters.kcp


@pytest_asyncio.fixture(loop_scope="session")
async def admin(cluster: LocalCluster) -> AsyncIterator[Client]:
    async with await Client.from_environment(cluster.admin_kubeconfig) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="session")
async def klm(environment: Environment, tmp_path: Path) -> Klm:
    """`klm` of somebody who has the rights of klm-registrar and no others."""
    text = files("kyma_fleet").joinpath("rbac.yaml").read_text()
    roles = [dict(each.document) for each in parse_objects(text) if each.name == "klm-registrar"]
    access = await create_identity(
        environment.kcp, environment.kcp_kubeconfig, name="registrar", namespace=KCP, roles=roles
    )
    kubeconfig = write_private(tmp_path / "registrar.kubeconfig", access)
    return lambda *arguments: run_klm(kubeconfig, *arguments)


async def held(environment: Environment) -> Token:
    secret = await environment.kcp.get(SECRETS, SECRET, KCP)
    return token_in(base64.b64decode(secret.data["config"]).decode())


async def hold(environment: Environment, token: Token) -> None:
    """Put another token into the access Secret."""
    secret = await environment.kcp.get(SECRETS, SECRET, KCP)
    config = with_token(base64.b64decode(secret.data["config"]).decode(), token)
    data = {"config": base64.b64encode(config.encode()).decode()}
    await environment.kcp.merge_patch(SECRETS, SECRET, {"data": data}, KCP, field_manager="test")


def reachable(environment: Environment, reason: str, status: str) -> Callable[[], Awaitable[bool]]:
    async def is_so() -> bool:
        kyma = await environment.kcp.get(KYMAS, "joined", KCP)
        condition = find(kyma.status.conditions, REACHABLE)
        return condition is not None and condition.status == status and reason in condition.reason

    return is_so


async def notes(environment: Environment, reason: str) -> list[str]:
    result = await run_klm(environment.kcp_kubeconfig, "events", "joined")
    return [line for line in result.lines if reason in line]


async def test_cluster_joins_and_its_token_is_renewed_before_it_expires(
    environment: Environment, cluster: LocalCluster, admin: Client, klm: Klm
) -> None:
    skr = str(cluster.admin_kubeconfig)
    label = f"{names.REGION}=eu-joined-1"
    result = await klm(
        "join", "joined", "--kubeconfig", skr, "--label", label, "--token-lifetime", "10m", "--any-module"
    )
    assert result.code == 0, result.errors or result.text
    assert "joined has joined" in result.text
    kyma = await environment.kcp.get(KYMAS, "joined", KCP)
    assert kyma.metadata.labels[names.REGION] == "eu-joined-1"
    first = await held(environment)
    assert first.lifetime == timedelta(minutes=10)

    account = await admin.get(SERVICE_ACCOUNTS, ACCOUNT, NAMESPACE)
    almost = datetime.now(UTC) - timedelta(minutes=9, seconds=30)
    due = token_of(signed_token(cluster, account, issued=almost, lifetime=timedelta(minutes=10)))
    await hold(environment, due)

    async def renewed() -> Token | None:
        token = await held(environment)
        return token if token.text != due.text else None

    after = await eventually(renewed, what="the token is renewed")
    assert after.expires - due.expires > timedelta(minutes=8)
    assert after.lifetime == timedelta(minutes=10)
    await eventually(reachable(environment, "", "True"))
    assert await notes(environment, "TokenNotRenewed") == []


async def test_expired_and_revoked_tokens_are_reported_and_joining_again_gives_access(
    environment: Environment, cluster: LocalCluster, admin: Client, klm: Klm
) -> None:
    account = await admin.get(SERVICE_ACCOUNTS, ACCOUNT, NAMESPACE)
    ago = datetime.now(UTC) - timedelta(minutes=20)
    expired = token_of(signed_token(cluster, account, issued=ago, lifetime=timedelta(minutes=10)))
    await hold(environment, expired)
    await eventually(reachable(environment, "SKRUnauthorized", "False"), what="the expired token is refused")

    async def is_reported() -> bool:
        return any(
            "has expired" in each and "klm join joined" in each for each in await notes(environment, "TokenNotRenewed")
        )

    await eventually(is_reported, every=0.5)
    assert (await held(environment)).text == expired.text
    join = ("join", "joined", "--kubeconfig", str(cluster.admin_kubeconfig), "--token-lifetime", "10m")
    result = await klm(*join)
    assert result.code == 0, result.errors or result.text
    before = await held(environment)
    await admin.delete(SERVICE_ACCOUNTS, ACCOUNT, NAMESPACE)  # revokes its tokens
    await run_klm(environment.kcp_kubeconfig, "reconcile", "joined")
    await eventually(reachable(environment, "SKRUnauthorized", "False"), what="the revoked token is refused")
    assert (await held(environment)).text == before.text
    assert (await klm(*join)).code == 0
    await eventually(reachable(environment, "", "True"))


async def test_cluster_leaves_with_its_modules_or_without_them(
    environment: Environment, cluster: LocalCluster, admin: Client, klm: Klm
) -> None:
    skr = str(cluster.admin_kubeconfig)
    await _want(environment, admin, "kept-nfs-1")
    await eventually(lambda: _has(admin, "kept-nfs-1"), what="the module's object")
    refused = await klm("leave", "joined", "--kubeconfig", skr)
    assert refused.code == 2
    assert "--yes" in refused.errors
    result = await klm("leave", "joined", "--kubeconfig", skr, "--keep-modules", "--yes")
    assert result.code == 0, result.errors or result.text
    assert await _has(admin, "kept-nfs-1")
    await _nothing_is_left(environment, admin)

    result = await klm("join", "joined", "--kubeconfig", skr, "--any-module")
    assert result.code == 0, result.errors or result.text
    await _want(environment, admin, "kept-nfs-1")
    synced = lambda: _is_ready(environment, "kept-nfs-1")  # noqa: E731
    await eventually(synced, what="the object is managed again")
    result = await klm("leave", "joined", "--kubeconfig", skr, "--yes")
    assert result.code == 0, result.errors or result.text
    assert f"ServiceAccount {NAMESPACE}/{ACCOUNT}: deleted" in result.text
    assert not await _has(admin, "kept-nfs-1")
    await _nothing_is_left(environment, admin)


async def _want(environment: Environment, admin: Client, name: str) -> None:
    """Have a module of the cluster want a ConfigMap there."""
    modules = {"spec": {"modules": [{"name": "cloud-resources", "managed": True}]}}
    await admin.merge_patch(KYMAS, names.DEFAULT_KYMA_NAME, modules, SKR, field_manager="user")
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": SKR}}
    part = builders.sync_resource(f"joined-{name}", text=dump_yaml(config_map), kyma="joined", module="cloud-resources")
    document = builders.as_written(part)
    document["metadata"]["labels"] = {names.KYMA_NAME: "joined", names.MODULE_NAME: "cloud-resources"}
    await environment.kcp.apply(SYNC_RESOURCES, f"joined-{name}", document, KCP, field_manager="test")


async def _is_ready(environment: Environment, name: str) -> bool:
    return (await environment.kcp.get(SYNC_RESOURCES, f"joined-{name}", KCP)).status.state == "Ready"


async def _has(admin: Client, name: str) -> bool:
    return not await is_gone(admin.get(CONFIG_MAPS, name, SKR))


async def _nothing_is_left(environment: Environment, admin: Client) -> None:
    assert await is_gone(environment.kcp.get(KYMAS, "joined", KCP))
    assert await is_gone(environment.kcp.get(SECRETS, SECRET, KCP))
    assert await is_gone(admin.get(SERVICE_ACCOUNTS, ACCOUNT, NAMESPACE))
    assert await is_gone(admin.get(WEBHOOKS, "skr-webhook"))
    assert not (await admin.list(CLUSTER_ROLE_BINDINGS, label_selector="app.kubernetes.io/managed-by=klm")).items
