"""Clusters that serve the same kinds share what is known of them."""

import pytest

from kube_runtime import Client, ClientOptions, KubeconfigPolicy
from kube_simulation import serve_simulation
from tests.kinds import CONFIG_MAPS


@pytest.mark.parametrize(("kind", "is_shared"), [("Widget", True), ("W" * 200, False)])
async def test_resource_is_the_same_for_all_clusters_unless_its_names_are_long(kind: str, is_shared: bool) -> None:
    found = []
    async with serve_simulation() as simulation:
        for name in ("one", "two"):
            kubeconfig = simulation.cluster(name).kubeconfig
            options, policy = ClientOptions(qps=0), KubeconfigPolicy(allow_insecure=True)
            async with await Client.from_kubeconfig(kubeconfig, options=options, policy=policy) as client:
                names = {"kind": kind, "plural": "widgets"}
                version = {"name": "v1", "served": True}
                spec = {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]}
                client.mapper.learn({"metadata": {"name": "widgets.example.com"}, "spec": spec})
                found.append(await client.mapper.resource("example.com/v1", kind))
                assert await client.mapper.resource("v1", "ConfigMap") == CONFIG_MAPS
    assert found[0] == found[1]
    assert (found[0] is found[1]) == is_shared
