"""Credentials that are replaced while somebody follows: the old ones are refused, and the new ones are asked for."""

import base64
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kube_runtime import Client, KubeconfigPolicy, Resource, Unauthorized
from tests.chaos.kube_runtime.conftest import IMPATIENT
from tests.chaos.kube_runtime.following import change_everything, following, populate, starting_to_follow
from tests.chaos.kube_runtime.servers import Servers
from tests.chaos.proxy import Answer, Asked, Proxy, status
from tests.waiting import eventually

ACCOUNTS: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "ServiceAccount", "serviceaccounts", namespaced=True)
RBAC = "rbac.authorization.k8s.io"
BINDINGS: Resource[dict[str, Any]] = Resource.dynamic(RBAC, "v1", "RoleBinding", "rolebindings", namespaced=True)
REQUEST = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
PLUGIN = "import json, pathlib, sys; print(json.dumps({'apiVersion': sys.argv[1], 'kind': 'ExecCredential', 'status': "
PLUGIN += "{'token': pathlib.Path(sys.argv[2]).read_text()}}))"


@pytest_asyncio.fixture
async def token(direct: Client, namespace: str) -> str:
    """A token that may do everything in the namespace."""
    await direct.create(ACCOUNTS, {"metadata": {"name": "robot"}}, namespace, field_manager="test")
    binding = {
        "metadata": {"name": "robot"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": namespace}],
    }
    await direct.create(BINDINGS, binding, namespace, field_manager="test")
    issued = await direct.create_subresource(ACCOUNTS, "robot", namespace, "token", REQUEST)
    return str(issued["status"]["token"])


@asynccontextmanager
async def client_with(servers: Servers, user: dict[str, Any], server: str = "") -> AsyncIterator[Client]:
    """Give a client of that user, directly to the API server unless told otherwise."""
    authority = base64.b64encode(servers.cluster.authority.certificate).decode()
    cluster: dict[str, Any] = {"server": server or servers.cluster.server}
    cluster |= {} if server else {"certificate-authority-data": authority}
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    policy = KubeconfigPolicy.permissive()
    async with await Client.from_kubeconfig(document, options=IMPATIENT, policy=policy) as made:
        yield made


def plugin_that_reads(file: Path) -> dict[str, Any]:
    """Return a user of a kubeconfig whose token is what a command finds in a file."""
    version = "client.authentication.k8s.io/v1"
    command = {"command": sys.executable, "args": ["-c", PLUGIN, version, str(file)]}
    return {"exec": {"apiVersion": version, "interactiveMode": "Never", **command}}


@pytest.fixture(params=["token file", "plugin"])
def user(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """A user whose token is in the file `token`, one way or the other."""
    file = tmp_path / "token"
    return {"tokenFile": str(file)} if request.param == "token file" else plugin_that_reads(file)


async def test_token_that_the_server_does_not_know_is_read_again(
    servers: Servers, direct: Client, namespace: str, token: str, user: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("outdated")
    await populate(direct, namespace)
    async with client_with(servers, user) as client, starting_to_follow(client, namespace) as follower:
        await eventually(lambda: isinstance(follower.informer.last_error, Unauthorized))
        (tmp_path / "token").write_text(token)
        await follower.agrees_with(direct)
        assert not follower.informer.last_error


async def test_watch_that_is_refused_for_an_old_token_is_opened_with_the_new_one(
    servers: Servers,
    direct: Client,
    proxy: Proxy,
    namespace: str,
    token: str,
    user: dict[str, Any],
    tmp_path: Path,
) -> None:
    (tmp_path / "token").write_text("old")
    await populate(direct, namespace)

    def refuse_old(asked: Asked) -> Answer | None:
        return status(401, "Unauthorized") if asked.headers["Authorization"] == "Bearer old" else None

    async with client_with(servers, user, proxy.url) as client, following(client, namespace) as follower:
        with proxy.answering(refuse_old):
            (tmp_path / "token").write_text(token)
            proxy.cut_watches()
            await change_everything(direct, namespace)
            await follower.agrees_with(direct)
