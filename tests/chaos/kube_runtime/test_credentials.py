"""Credentials that are replaced while somebody follows: the old ones are refused, and the new ones are asked for."""

import base64
import importlib
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kube_runtime import Client, ClientOptions, KubeconfigPolicy, Resource, RuntimeMetrics, Unauthorized
from kyma_local.certificates import issue_for, write_key_pair
from kyma_local.cluster import ADMINISTRATORS
from tests.chaos.kube_runtime.conftest import LONG_TIMEOUTS
from tests.chaos.kube_runtime.following import change_everything, following, populate, starting_to_follow
from tests.chaos.proxy import Answer, Asked, Proxy, status
from tests.chaos.servers import Servers
from tests.kinds import SERVICE_ACCOUNTS
from tests.kubeconfigs import kubeconfig
from tests.waiting import eventually

RBAC = "rbac.authorization.k8s.io"
BINDINGS: Resource[dict[str, Any]] = Resource.dynamic(RBAC, "v1", "RoleBinding", "rolebindings", namespaced=True)
REQUEST = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
PLUGIN = """import json, pathlib, sys
status = {name: pathlib.Path(path).read_text() for name, path in (each.split("=", 1) for each in sys.argv[2:])}
print(json.dumps({"apiVersion": sys.argv[1], "kind": "ExecCredential", "status": status}))"""


@pytest_asyncio.fixture
async def token(direct: Client, namespace: str) -> str:
    await direct.create(SERVICE_ACCOUNTS, {"metadata": {"name": "robot"}}, namespace, field_manager="test")
    binding = {
        "metadata": {"name": "robot"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": namespace}],
    }
    await direct.create(BINDINGS, binding, namespace, field_manager="test")
    issued = await direct.create_subresource(SERVICE_ACCOUNTS, "robot", namespace, "token", REQUEST)
    return str(issued["status"]["token"])


@asynccontextmanager
async def client_with(
    servers: Servers, user: dict[str, Any], server: str = "", options: ClientOptions = LONG_TIMEOUTS
) -> AsyncIterator[Client]:
    """Return a client of that user, for the API server where no other address is given."""
    ca = base64.b64encode(servers.cluster.ca.certificate_pem).decode()
    cluster: dict[str, Any] = {"server": server or servers.cluster.server}
    cluster |= {} if server else {"certificate-authority-data": ca}
    document, policy = kubeconfig(user, **cluster), KubeconfigPolicy.permissive()
    async with await Client.from_kubeconfig(document, options=options, policy=policy) as made:
        yield made


def plugin_that_reads(**files: Path) -> dict[str, Any]:
    """Return a user of a kubeconfig whose credentials are what a command finds in files."""
    version = "client.authentication.k8s.io/v1"
    named = [f"{name}={path}" for name, path in files.items()]
    command = {"command": sys.executable, "args": ["-IS", "-c", PLUGIN, version, *named]}
    return {"exec": {"apiVersion": version, "interactiveMode": "Never", **command}}


@pytest.fixture(params=["token file", "plugin"])
def user(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """A user whose token is in the file `token`, one way or the other."""
    file = tmp_path / "token"
    return {"tokenFile": str(file)} if request.param == "token file" else plugin_that_reads(token=file)


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


@pytest.mark.parametrize("source", ["files", "plugin"])
async def test_client_certificate_that_ended_is_replaced_by_the_new_one(
    servers: Servers, direct: Client, namespace: str, tmp_path: Path, source: str
) -> None:
    def issue(lifetime: timedelta) -> tuple[Path, Path]:
        pair, current = issue_for(servers.cluster.ca, "robot", ADMINISTRATORS, lifetime=lifetime), tmp_path / "current"
        folder, link = tmp_path / f"{lifetime.days}", tmp_path / "link"
        folder.mkdir()
        certificate, key = write_key_pair(pair, folder, "robot")
        link.symlink_to(folder)
        link.replace(current)  # at once, as the kubelet does: who reads one half gets no certificate, or another's
        return current / certificate.name, current / key.name

    await populate(direct, namespace)
    importlib.import_module("kubernetes_asyncio.config.kube_config")  # it takes as long as the certificate lasts
    certificate, key = issue(timedelta(seconds=2))
    user: dict[str, Any] = {"client-certificate": str(certificate), "client-key": str(key)}
    if source == "plugin":
        user = plugin_that_reads(clientCertificateData=certificate, clientKeyData=key)
    often = replace(LONG_TIMEOUTS, watch_seconds=1, metrics=(metrics := RuntimeMetrics()))
    async with client_with(servers, user, options=often) as client, starting_to_follow(client, namespace) as follower:
        await eventually(lambda: follower.informer.synced or answered(metrics, "401"))
        await eventually(lambda: answered(metrics, "401"), what="the old certificate is refused")
        issue(timedelta(days=1))
        await change_everything(direct, namespace)
        await follower.agrees_with(direct)
        assert not follower.informer.last_error


def answered(metrics: RuntimeMetrics, code: str) -> float:
    """Return how many requests were answered with a code."""
    (requests,) = (each for each in metrics.collect() if each.name == "rest_client_requests")
    return sum(sample.value for sample in requests.samples if sample.labels["code"] == code)
