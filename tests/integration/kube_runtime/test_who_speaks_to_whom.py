"""A client proves who it is, and is told apart from a stranger; so is a server.

Real servers alone have users and TLS.
"""

import pytest

from kube_runtime import Client, ClientOptions, ClusterUnreachable, KubeconfigPolicy, Unauthorized
from tests.kinds import NAMESPACES


async def test_wrong_token_is_unauthorized(client: Client) -> None:
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": client.server, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": {"token": "wrong"}}],
    }
    policy = KubeconfigPolicy(allow_insecure=True)
    async with await Client.from_kubeconfig(document, policy=policy) as stranger:
        with pytest.raises(Unauthorized):
            await stranger.list(NAMESPACES)


async def test_certificate_of_another_ca_is_not_trusted(client: Client) -> None:
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k"}}],
        "clusters": [{"name": "k", "cluster": {"server": client.server}}],
    }
    async with await Client.from_kubeconfig(document) as stranger:
        with pytest.raises(ClusterUnreachable, match=r"^no response from [\d.:]+: .*certificate verify failed"):
            await stranger.list(NAMESPACES)


async def test_server_that_is_not_there_is_unreachable() -> None:
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:1"}}],
    }
    async with await Client.from_kubeconfig(document, options=ClientOptions(timeout_seconds=2)) as nobody:
        with pytest.raises(ClusterUnreachable, match=r"^no response from 127\.0\.0\.1:1: Connection refused$"):
            await nobody.server_version()
