"""Installs what was packed, as its users do: the charts into an empty API server, an image into an empty folder."""

import os
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from kube_runtime import Client, Resource
from kyma_local.clusters import LocalClusters
from kyma_local.helm import Helm, find_helm
from tools.images.build import AT, USER
from tools.images.within import unpack
from tools.release.charts import PINNED, Descriptor, Index

DEPLOYMENTS: Resource[dict[str, Any]] = Resource.dynamic("apps", "v1", "Deployment", "deployments", namespaced=True)
RELEASES = {
    "lifecycle-manager": ("kcp-system", ""),
    "module-manager": ("kcp-system", "cloud-resources-values.yaml"),
    "skr-watcher": ("kyma-system", "by-hand-values.yaml"),
}
"""The namespace of each chart, and which of its values for tests it needs."""
COMMANDS = {
    "lifecycle-manager": ("klm", "--version"),
    "module-manager": ("kyma-module-manager", "--help"),
    "skr-watcher": ("python", "-c", "import skr_watcher.main"),  # it has no option that ends it
}
"""What shows that the programs of an image run."""


class NotInstalled(Exception):
    """What was packed does not install as it should."""


class Manifest(msgspec.Struct):
    """The part of an image's manifest that is used."""

    layers: list[Descriptor]


async def install_charts(
    packed: Path, version: str, digests: Mapping[str, str], scratch: Path, *, is_released: bool = False
) -> None:
    """Install each packed chart into an empty API server. Raises HelmFailed, and NotInstalled for another image.

    Charts that are released already name digests of a registry, and not those of images that were built here.
    """
    async with _empty_cluster(scratch) as (helm, client):
        for chart, (namespace, values) in RELEASES.items():
            given = ("--values", f"charts/{chart}/ci/{values}") if values else ()
            archive = str(packed / f"{chart}-{version}.tgz")
            await helm.run("install", chart, archive, f"--namespace={namespace}", "--create-namespace", *given)
            images = {
                container["image"]
                for deployment in (await client.list(DEPLOYMENTS, namespace)).items
                for container in deployment["spec"]["template"]["spec"]["containers"]
            }
            digest = "sha256:" if is_released else digests.get(chart)
            wanted = f"{chart}@{digest}" if chart in PINNED and digest else f"{chart}:{version}"
            if not any(wanted in each for each in images):
                raise NotInstalled(f"chart {chart}: {', '.join(sorted(images))} and not {wanted}")


def run_image(archive: Path, folder: Path) -> None:
    """Run a program of an image in a folder with nothing but the image; as root. Raises CalledProcessError."""
    program, *arguments = COMMANDS[archive.stem]
    root = unpack_image(archive, folder)
    command = ["chroot", f"--userspec={USER}", str(root), f"/{AT}/bin/{program}", *arguments]
    subprocess.run(command, env={"PATH": os.environ["PATH"]}, check=True, stdout=subprocess.DEVNULL)


def unpack_image(archive: Path, folder: Path) -> Path:
    """Unpack an image in a folder, and return its root file system. Raises CalledProcessError."""
    image = unpack(archive, folder / "image")
    (found,) = msgspec.json.decode((image / "index.json").read_bytes(), type=Index).manifests
    for layer in msgspec.json.decode((image / _blob(found)).read_bytes(), type=Manifest).layers:
        unpack(image / _blob(layer), folder / "root")
    return folder / "root"


def _blob(described: Descriptor) -> str:
    return f"blobs/{described.digest.replace(':', '/')}"


@asynccontextmanager
async def _empty_cluster(scratch: Path) -> AsyncIterator[tuple[Helm, Client]]:
    async with (
        LocalClusters.start(skrs=0, directory=scratch / "clusters") as clusters,
        await Client.from_environment(clusters.kcp.admin_kubeconfig) as client,
    ):
        yield Helm(find_helm(), scratch / "helm", clusters.kcp.admin_kubeconfig), client
