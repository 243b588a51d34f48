"""`klm join` writes nothing that it could not write as a whole, and nothing over what is not its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kube_runtime import Client, dump_yaml
from kyma_fleet.identities import SERVICE_ACCOUNTS, create_identity, remove_identity
from kyma_local.cluster import LocalCluster
from kyma_local.clusters import LocalClusters
from kyma_local.private_files import write_private
from lifecycle_manager.contract.resources import KYMAS, SECRETS
from lifecycle_manager_api import names
from tests.integration.fleet.conftest import put_kyma
from tests.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from tests.klm import Output, run_klm
from tests.waiting import is_gone

pytestmark = pytest.mark.xdist_group("join")  # a cluster that all share
KCP = names.KCP_NAMESPACE
JOIN = "lifecycle-manager", "kube-system"
RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
WRITES = ["get", "list", "create", "patch", "delete"]
WITHOUT_TOKENS = [
    {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": WRITES},
    {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": [*WRITES, "escalate", "bind"]},
]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cluster() -> AsyncIterator[LocalCluster]:
    async with LocalClusters.start(skrs=0, flags=("--service-account-max-token-expiration=1h",)) as clusters:
        yield clusters.kcp


@pytest_asyncio.fixture
async def skr(cluster: LocalCluster) -> AsyncIterator[Client]:
    async with await Client.from_environment(cluster.admin_kubeconfig) as client:
        yield client


async def join(kcp: Path, cluster: LocalCluster, name: str, *arguments: str) -> Output:
    return await run_klm(kcp, "join", name, "--kubeconfig", str(cluster.admin_kubeconfig), *arguments)


async def assert_nothing_was_written(skr: Client) -> None:
    assert await is_gone(skr.get(SERVICE_ACCOUNTS, *JOIN))
    for kind in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS):
        assert not (await skr.list(kind, label_selector="app.kubernetes.io/managed-by=klm")).items


async def test_secret_that_is_not_of_klm_join_is_not_overwritten(
    control_plane: Client, kcp: Path, cluster: LocalCluster, skr: Client
) -> None:
    somebodys = {"metadata": {"name": "kubeconfig-taken"}, "data": {"config": "c29tZWJvZHlz"}}
    await control_plane.apply(SECRETS, "kubeconfig-taken", somebodys, KCP, field_manager="somebody")
    result = await join(kcp, cluster, "taken")
    assert result.code == 2
    assert "Secret kubeconfig-taken" in result.errors
    assert "not of klm join" in result.errors
    assert dict((await control_plane.get(SECRETS, "kubeconfig-taken", KCP)).data) == somebodys["data"]
    assert await is_gone(control_plane.get(KYMAS, "taken", KCP))
    await assert_nothing_was_written(skr)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Bad_Name", ()),
        ("a" * 64, ()),
        ("wrong-label", ("--label", "region=not a value")),
        ("wrong-channel", ("--channel", "Not A Channel")),
        ("known", ("--label", "region=not a value")),
    ],
)
async def test_nothing_is_written_where_the_control_plane_would_refuse_a_part(
    control_plane: Client, kcp: Path, cluster: LocalCluster, skr: Client, name: str, arguments: tuple[str, ...]
) -> None:
    await put_kyma(control_plane, "known", {})
    result = await join(kcp, cluster, name, *arguments)
    assert result.code == 2
    assert "try again" not in result.errors
    await assert_nothing_was_written(skr)
    assert not [each for each in (await control_plane.list(SECRETS, KCP)).items if name in each.metadata.name]


async def test_role_that_is_not_of_klm_join_is_not_overwritten(
    control_plane: Client, kcp: Path, cluster: LocalCluster, skr: Client, tmp_path: Path
) -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "somebodys"}}
    await skr.apply(CLUSTER_ROLES, "somebodys", {**role, "rules": RULES}, field_manager="somebody")
    file = tmp_path / "role.yaml"
    file.write_text(dump_yaml({**role, "rules": [{**RULES[0], "verbs": ["*"]}]}))
    result = await join(kcp, cluster, "roles", "--role", str(file))
    assert result.code == 2
    assert "ClusterRole somebodys" in result.errors
    assert (await skr.get(CLUSTER_ROLES, "somebodys"))["rules"] == RULES
    await assert_nothing_was_written(skr)


async def test_what_was_written_is_undone_where_a_later_step_fails(
    control_plane: Client, kcp: Path, cluster: LocalCluster, skr: Client, tmp_path: Path
) -> None:
    role = {"kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "no-tokens"}}
    await skr.apply(CLUSTER_ROLES, "no-tokens", {**role, "rules": WITHOUT_TOKENS}, field_manager="test")
    user = cluster.kubeconfig_for("somebody")
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "somebody"}
    named = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "no-tokens"}
    binding = {"metadata": {"name": "no-tokens"}, "roleRef": named, "subjects": [subject]}
    await skr.apply(CLUSTER_ROLE_BINDINGS, "no-tokens", binding, field_manager="test")
    result = await run_klm(kcp, "join", "undone", "--kubeconfig", str(user))
    assert result.code == 2
    assert "token" in result.errors
    await assert_nothing_was_written(skr)
    assert await is_gone(control_plane.get(KYMAS, "undone", KCP))


async def test_identity_stays_where_joining_again_fails_and_is_removed_as_a_whole(
    cluster: LocalCluster, skr: Client, tmp_path: Path
) -> None:
    name, namespace = "again", "kube-system"
    role = {"kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "again"}}
    elsewhere = {**role, "kind": "Role", "metadata": {"name": "elsewhere", "namespace": "kube-public"}}
    roles = [{**each, "rules": RULES} for each in (role, elsewhere)]
    for _ in range(2):
        text = await create_identity(skr, cluster.admin_kubeconfig, name=name, namespace=namespace, roles=roles)
    assert write_private(tmp_path / "again", text).stat().st_size
    uid = (await skr.get(SERVICE_ACCOUNTS, name, namespace))["metadata"]["uid"]
    invalid = {**role, "rules": [{"verbs": []}]}
    try:
        with pytest.raises(Exception, match="verbs"):
            await create_identity(skr, cluster.admin_kubeconfig, name=name, namespace=namespace, roles=[invalid])
        assert (await skr.get(SERVICE_ACCOUNTS, name, namespace))["metadata"]["uid"] == uid
        assert (await skr.get(CLUSTER_ROLES, "again"))["rules"] == RULES
    finally:
        removed = await remove_identity(skr, name=name, namespace=namespace)
    assert {"ClusterRoleBinding again-again", "ClusterRole again"} < set(removed)
    assert {"RoleBinding again-elsewhere", "Role elsewhere", f"ServiceAccount {namespace}/again"} < set(removed)


async def test_lifetime_that_the_cluster_issued_is_reported(
    control_plane: Client, kcp: Path, cluster: LocalCluster
) -> None:
    result = await join(kcp, cluster, "shortened", "--token-lifetime", "72h", "--timeout", "1s")
    assert result.code == 1, result.errors
    assert "a token for 1h," in result.text
    await control_plane.delete(KYMAS, "shortened", KCP)
    await control_plane.delete(SECRETS, "kubeconfig-shortened", KCP)
