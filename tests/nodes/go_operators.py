"""Operators that module teams write in Go: built from their source, put on a node, and offered as a module.

A variable of the environment names the folder of the source; in its `bin` there is what the team releases, as the
test of the operator says. The images that an operator itself installs can't be pulled here.
"""

import asyncio
import os
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kube_runtime import KindUnknown, Resource, dump_yaml, load_documents
from kyma_local.nodes.images import CREATED
from kyma_local.oci_archive import LayerArchive, write_image
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS
from lifecycle_manager_api import Kyma, names
from tests.nodes.clusters import NodeClusters, is_ready, pods_of

FIPS = "fips140=only,tlsmlkem=0"  # as in upstream's images; without it the managers do not start
Document = dict[str, Any]


def source_in(variable: str) -> Path:
    """Return the folder that a variable names; skip the test without one."""
    given = os.environ.get(variable)
    if not given:
        pytest.skip(f"{variable} is not set: give the folder of upstream's source, with what it releases in bin/")
    return Path(given)


@dataclass(frozen=True, kw_only=True)
class GoOperator:
    """An operator: `name` is that of its Deployment, and of its manifest in `bin`; `default` its default Module CR.

    `files` are those of its image, by the folder of its source.
    """

    source: Path
    module: str
    name: str
    default: str
    module_crs: Resource[Document]
    files: tuple[str, ...] = ("bin/manager",)

    @property
    def image(self) -> str:
        return f"localhost/{self.name}:upstream"

    @property
    def default_module_cr(self) -> Document:
        return next(iter(load_documents((self.source / self.default).read_text())))

    def objects(self) -> list[Document]:
        """Return the manifest with the image that is on the node; all else is upstream's."""
        objects = list(load_documents((self.source / "bin" / f"{self.name}.yaml").read_text()))
        for container in containers_of(objects):
            container |= {"image": self.image, "imagePullPolicy": "Never"}
        return objects

    async def load(self, world: NodeClusters, folder: Path) -> None:
        """Load its image into the containerd of the user's node."""
        files = {Path(name).name: self.source / name for name in self.files}
        await load_image(world, folder, self.image, files, Entrypoint=["/manager"], Env=[f"GODEBUG={FIPS}"])

    async def runs(self, world: NodeClusters) -> bool:
        return any(is_ready(each) for each in await pods_of(world.skr, names.SKR_NAMESPACE, self.name))

    async def state(self, world: NodeClusters) -> str:
        """Return the state that it has written into its Module CR; empty without one."""
        try:
            found = (await world.skr.list(self.module_crs, names.SKR_NAMESPACE)).items
        except KindUnknown:  # not installed yet
            return ""
        return next((each["status"]["state"] for each in found if each.get("status", {}).get("state")), "")

    async def shown(self, world: NodeClusters) -> str:
        """Return the state of the Module CR, once the Kyma in KCP and that of the user show it; empty before."""
        kymas = [*(await world.kcp.list(KYMAS, names.KCP_NAMESPACE)).items, *(await world.skr.list(KYMAS)).items]
        states = {*map(self._state_in, kymas), await self.state(world)}
        return states.pop() if len(kymas) == 2 and len(states) == 1 else ""

    async def says(self, world: NodeClusters, *words: str) -> bool:
        """Tell whether the user's Kyma says these words of a module."""
        kymas = (await world.skr.list(KYMAS)).items
        messages = [module.message for kyma in kymas for module in kyma.status.modules]
        return any(all(word in message for word in words) for message in messages)

    async def synced(self, world: NodeClusters) -> set[tuple[str, str]]:
        """Return kinds and names of the objects that Lifecycle Manager has applied."""
        selector = f"{names.MODULE_NAME}={self.module}"
        found = (await world.kcp.list(MANIFESTS, names.KCP_NAMESPACE, label_selector=selector)).items
        return {(each.kind, each.name) for manifest in found for each in manifest.status.synced}

    def _state_in(self, kyma: Kyma) -> str:
        return next((str(each.state) for each in kyma.status.modules if each.name == self.module), "")


async def load_image(world: NodeClusters, folder: Path, image: str, files: Mapping[str, Path], **config: Any) -> None:
    """Load an image with these files into the containerd of the user's node, which has a file system of its own."""
    layer = folder / "layer.tar"
    with tarfile.open(layer, "w") as tar:
        for name, file in files.items():
            tar.add(file, name)
    config = {"User": "65532:65532", "WorkingDir": "/", **config}
    layers = (LayerArchive.of(layer),)
    written = write_image(folder / "image.tar", name=image, layers=layers, config=config, created=CREATED)
    process = await asyncio.create_subprocess_exec(
        *("nsenter", f"--target={world.skr_node.process}", "--mount", "ctr", "--namespace=k8s.io"),
        *("images", "import", str(written.path)),
    )
    assert await process.wait() == 0


def containers_of(objects: Iterable[Document]) -> list[Document]:
    """Return the container of each Deployment."""
    pods = [each["spec"]["template"]["spec"] for each in objects if each["kind"] == "Deployment"]
    return [container for pod in pods for container in pod["containers"]]


def names_of(objects: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    return {(each["kind"], each["metadata"]["name"]) for each in objects}


def as_text(objects: Iterable[Document]) -> str:
    return "---\n".join(map(dump_yaml, objects))
