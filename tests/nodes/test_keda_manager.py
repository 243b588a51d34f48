"""keda-manager as upstream's module team ships it: its manifest, its manager and its default Module CR, on a real node.

KEDA_MANAGER names the folder of its source, kyma-project/keda-manager; in `bin` there is what it releases, made by

    GOFIPS140=v1.0.0 CGO_ENABLED=0 go build -o bin/manager .
    kustomize build config/default > bin/keda-manager.yaml

The images of KEDA itself, which the manager installs, can't be pulled here: the Keda CR never becomes ready.
"""

import asyncio
import os
import tarfile
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kube_runtime import Resource, dump_yaml, load_documents
from kyma_demo import names as demo_names
from kyma_local.nodes.images import CREATED
from kyma_local.oci_archive import LayerArchive, write_image
from lifecycle_manager.contract.resources import CUSTOM_RESOURCE_DEFINITIONS, KYMAS, MANIFESTS
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager_api import Kyma, State, names
from tests.integration.lifecycle_manager.catalog_entries import put_in_catalog, release, template
from tests.kinds import DEPLOYMENTS, NAMESPACES
from tests.modules import ANY_MODULE
from tests.nodes.clusters import NodeClusters, is_ready, pods_of
from tests.nodes.registry import private_registry
from tests.waiting import eventually, is_gone

SOURCE = "KEDA_MANAGER"
MODULE, VERSION, IMAGE, OPERATOR = "upstream-keda", "2.20.1", "localhost/keda-manager:upstream", "keda-manager"
IN_IMAGE = ("bin/manager", "keda.yaml", "keda-networkpolicies.yaml", "keda-addon-networkpolicies.yaml")
KEDAS: Resource[dict[str, Any]] = Resource.dynamic(
    "operator.kyma-project.io", "v1alpha1", "Keda", "kedas", namespaced=True
)
FIPS = "fips140=only,tlsmlkem=0"  # as in upstream's image; without it the manager does not start
SECONDS = 120.0


@pytest.fixture
def source() -> Path:
    given = os.environ.get(SOURCE)
    if not given:
        pytest.skip(f"{SOURCE} is not set: give the folder of upstream's keda-manager, with what it releases in bin/")
    return Path(given)


async def test_upstreams_module_comes_reports_its_state_and_goes(
    world: NodeClusters, source: Path, tmp_path: Path
) -> None:
    await _load(world, _image(source, tmp_path))
    await apply_objects(world.skr, ANY_MODULE)
    objects = list(load_documents((source / "bin" / "keda-manager.yaml").read_text()))
    default = next(iter(load_documents((source / "config" / "samples" / "keda-default-cr.yaml").read_text())))
    async with private_registry(world, tmp_path) as registry, AsyncExitStack() as stack:
        entry = await registry.filled(template(MODULE, VERSION, data=default), _text(objects))
        await registry.put_with_login(world, entry)
        await put_in_catalog(world.kcp, release(MODULE, regular=VERSION))
        await world.walkthrough.set_modules([{"name": demo_names.MODULE, "managed": True}, {"name": MODULE}])

        refused = f"Deployment {names.SKR_NAMESPACE}/{OPERATOR}: 0 of 1 replicas are updated: pods"
        await eventually(lambda: _says(world, refused, "violates PodSecurity"), what="why no Pod runs", within=SECONDS)
        await stack.enter_async_context(_enforced(world, "baseline"))  # upstream's Pod names no seccomp profile
        await eventually(lambda: _runs(world), what="the Pod of keda-manager", within=SECONDS)
        state = await eventually(lambda: _own_state(world), what="a state of its Keda CR", within=SECONDS)
        await eventually(lambda: _is_shown(world), what=f"the state {state} in the Kyma", within=SECONDS)
        found = (await world.kcp.list(MANIFESTS, names.KCP_NAMESPACE, label_selector=_selector())).items
        synced = {(each.kind, each.name) for manifest in found for each in manifest.status.synced}
        assert synced == {(each["kind"], each["metadata"]["name"]) for each in objects}

        await world.walkthrough.set_modules([{"name": demo_names.MODULE, "managed": True}])
        await eventually(lambda: _is_gone(world), what="the end of the module and of KEDA", within=SECONDS)


def _image(source: Path, folder: Path) -> Path:
    """Write the image of the manager with the files that upstream's has."""
    layer = folder / "layer.tar"
    with tarfile.open(layer, "w") as tar:
        for name in IN_IMAGE:
            tar.add(source / name, Path(name).name)
    config = {"User": "65532:65532", "WorkingDir": "/", "Entrypoint": ["/manager"], "Env": [f"GODEBUG={FIPS}"]}
    layers = (LayerArchive.of(layer),)
    return write_image(folder / "keda-manager.tar", name=IMAGE, layers=layers, config=config, created=CREATED).path


async def _load(world: NodeClusters, image: Path) -> None:
    """Load an image into the containerd of the user's node, which has a file system of its own."""
    process = await asyncio.create_subprocess_exec(
        *("nsenter", f"--target={world.skr_node.process}", "--mount", "ctr", "--namespace=k8s.io", "images", "import"),
        str(image),
    )
    assert await process.wait() == 0


def _text(objects: Iterable[dict[str, Any]]) -> str:
    """Return the manifest with the image that is on the node; all else is upstream's."""
    for each in objects:
        if each["kind"] == "Deployment":
            (container,) = each["spec"]["template"]["spec"]["containers"]
            container |= {"image": IMAGE, "imagePullPolicy": "Never"}
    return "---\n".join(map(dump_yaml, objects))


def _selector() -> str:
    return f"{names.MODULE_NAME}={MODULE}"


async def _runs(world: NodeClusters) -> bool:
    return any(is_ready(each) for each in await pods_of(world.skr, names.SKR_NAMESPACE, OPERATOR))


async def _says(world: NodeClusters, *words: str) -> bool:
    """Tell whether the user's Kyma says these words of the module."""
    kymas = (await world.skr.list(KYMAS)).items
    messages = [module.message for kyma in kymas for module in kyma.status.modules]
    return any(all(word in message for word in words) for message in messages)


@asynccontextmanager
async def _enforced(world: NodeClusters, level: str) -> AsyncGenerator[None, None]:
    """Have the user's cluster enforce another Pod Security Standard where the modules are, until the block ends."""

    async def enforce(level: str) -> None:
        labels = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}}
        await world.skr.merge_patch(NAMESPACES, names.SKR_NAMESPACE, labels, field_manager="user")

    await enforce(level)
    try:
        yield
    finally:
        await enforce("restricted")


async def _own_state(world: NodeClusters) -> str:
    """Return the state that keda-manager has written into its CR."""
    found = (await world.skr.list(KEDAS, names.SKR_NAMESPACE)).items
    return next((each["status"]["state"] for each in found if each.get("status", {}).get("state")), "")


async def _is_shown(world: NodeClusters) -> bool:
    """Tell whether the Kyma in KCP and that of the user show the state of the Keda CR, and both are not ready."""
    kymas = [*(await world.kcp.list(KYMAS, names.KCP_NAMESPACE)).items, *(await world.skr.list(KYMAS)).items]
    own = await _own_state(world)
    return len(kymas) == 2 and all(_state_in(each) == own != State.READY for each in kymas)


def _state_in(kyma: Kyma) -> str:
    return next((str(each.state) for each in kyma.status.modules if each.name == MODULE), "")


async def _is_gone(world: NodeClusters) -> bool:
    left = [each["metadata"]["name"] for each in (await world.skr.list(DEPLOYMENTS, names.SKR_NAMESPACE)).items]
    crd_is_gone = await is_gone(world.skr.get(CUSTOM_RESOURCE_DEFINITIONS, "kedas.operator.kyma-project.io"))
    return crd_is_gone and not any("keda" in each for each in left)
