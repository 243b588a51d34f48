"""API servers of the supported versions accept every field that the charts render."""

import re
from pathlib import Path

import pytest
import pytest_asyncio

from kube_runtime import Client
from kyma_local.binaries import find_binaries
from kyma_local.cache import cache_folder
from kyma_local.clusters import LocalClusters
from kyma_local.sources import Versions
from lifecycle_manager.process.crd_installation import apply_crds, apply_objects
from tests.integration.charts.clusters import HelmClusters
from tests.integration.charts.helm import NAMESPACES, WAYS, Helm, of_kind
from tests.integration.charts.others import crds_of_others

(OLDEST_RELEASE,) = re.findall(r"^OLDEST := (\S+)$", Path("Makefile").read_text(), re.MULTILINE)
OLDEST = Versions(kubernetes=OLDEST_RELEASE)
UPGRADES = {
    "lifecycle-manager-with-everything": "replicas=1,options.leader-elect=false",
    "cloud-resources": "replicas=1,leaderElection.enabled=false",
    "skr-watcher": "replicas=2",
}
"""One installation of each chart, and the values that an upgrade changes: those that change the update strategy."""
NAMESPACE = "{{apiVersion: v1, kind: Namespace, metadata: {{name: {}}}}}"
OF_ISTIO = NAMESPACE.format("istio-system")
IN_KCP_AND_SKR = "\n---\n".join(map(NAMESPACE.format, ("kcp-system", "kyma-system", "istio-system")))


@pytest.fixture(scope="session")
def crds() -> str:
    return crds_of_others()


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def newest(world: HelmClusters, crds: str) -> HelmClusters:
    await apply_objects(world.kcp, f"{crds}\n---\n{OF_ISTIO}")
    return world


async def test_charts_require_the_oldest_version_that_they_are_tested_on() -> None:
    oldest = OLDEST_RELEASE.removeprefix("v").rpartition(".")[0]
    for chart in NAMESPACES:
        assert f'kubeVersion: ">={oldest}.0-0"' in (chart / "Chart.yaml").read_text()


@pytest.mark.parametrize("way", WAYS)
async def test_newest_server_accepts_every_field(helm: Helm, newest: HelmClusters, way: str) -> None:
    await _check(helm, newest.skr if way == "skr-watcher" else newest.kcp, way)


async def test_oldest_server_accepts_every_field_and_every_release(helm: Helm, crds: str, tmp_path: Path) -> None:
    if not cache_folder(OLDEST).exists():
        pytest.skip(
            f"needs Kubernetes {OLDEST.kubernetes}, built by klm local binaries --kubernetes {OLDEST.kubernetes}"
        )
    async with (
        LocalClusters.start(skrs=0, directory=tmp_path, binaries=find_binaries(versions=OLDEST)) as clusters,
        await Client.from_environment(clusters.kcp.admin_kubeconfig) as client,
    ):
        assert await client.server_version() == OLDEST.kubernetes
        await apply_objects(client, IN_KCP_AND_SKR)
        await apply_objects(client, crds)
        for way in WAYS:
            await _check(helm, client, way)
        await apply_crds(client)
        await _install_and_uninstall(Helm(helm.program, helm.home, clusters.kcp.admin_kubeconfig))


async def _install_and_uninstall(helm: Helm) -> None:
    """Install, upgrade, roll back and uninstall each chart; nothing runs the Pods here."""
    for way, change in UPGRADES.items():
        chart, arguments = WAYS[way]
        namespace = f"--namespace={NAMESPACES[chart]}"
        # CRDs that `klm crds` has applied belong to no release: the first one has to take ownership.
        await helm.run("install", way, str(chart), namespace, "--take-ownership", *arguments)
        await helm.run(
            "upgrade", way, str(chart), namespace, *arguments, "--set=resources.limits.memory=300Mi", f"--set={change}"
        )
        await helm.run("rollback", way, "1", namespace)
        assert "deployed" in await helm.run("status", way, namespace)
        await helm.run("uninstall", way, namespace)
        assert way not in await helm.run("list", namespace, "--short")


async def _check(helm: Helm, client: Client, way: str) -> None:
    """Validate every object by a dry run, unknown and duplicate fields included.

    A dry run creates no namespace, so those that a chart brings are replaced by one that exists.
    """
    chart, arguments = WAYS[way]
    rendered = await helm.render(chart, *arguments, release="dry-run")
    brought = of_kind(rendered, "Namespace")
    for document in rendered:
        resource = await client.mapper.resource(document["apiVersion"], document["kind"])
        namespace = document["metadata"].get("namespace")
        assert bool(namespace) == resource.namespaced
        if namespace in brought:
            namespace = document["metadata"]["namespace"] = "default"
        await client.apply(
            resource,
            document["metadata"]["name"],
            document,
            namespace,
            field_manager="test",
            dry_run=True,
        )
