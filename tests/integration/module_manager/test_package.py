"""A module from its name to a registry: created, checked, packed, and pushed to a real OCI registry."""

import asyncio
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kube_runtime import load_yaml
from kyma_local.ports import free_port
from kyma_oci import Blob, Login, Registries, artifact_in
from kyma_oci.problems import AccessRefused

SOURCE = Path(__file__).parent / "registry"
PROGRAM = str(Path(sys.executable).with_name("kyma-module-manager"))
USER, PASSWORD = "pusher", "correct horse"
PASSWORD_HASH = "$2b$05$abcdefghijklmnopqrstuuHNbAKRhpaujgo33bRWs.NLUTJO3lOy2"


@pytest.fixture
async def registry(go_build: Callable[[Path], Path], tmp_path: Path) -> AsyncIterator[str]:
    """A registry in memory on a free port, as `127.0.0.1:port`."""
    async with _registry(await asyncio.to_thread(go_build, SOURCE), tmp_path, {}) as address:
        yield address


@pytest.fixture
async def guarded_registry(go_build: Callable[[Path], Path], tmp_path: Path) -> AsyncIterator[str]:
    """The same, with basic authentication."""
    (tmp_path / "htpasswd").write_text(f"{USER}:{PASSWORD_HASH}\n")
    guard = {"auth": {"htpasswd": {"realm": "test", "path": str(tmp_path / "htpasswd")}}}
    async with _registry(await asyncio.to_thread(go_build, SOURCE), tmp_path, guard) as address:
        yield address


async def test_new_module_is_valid_tested_packed_and_pushed(registry: str, tmp_path: Path) -> None:
    project = tmp_path / "colour-mixer"
    assert "✓" in _klm("new", "colour-mixer", "--dir", str(project), "--enableModuleConfig")
    assert "✗" not in _klm("validate", str(project))
    printed = _klm("package", str(project), "--plain-http", "--registry", f"{registry}/modules")

    template = load_yaml((project / "dist" / "module-template.yaml").read_text())
    component = template["spec"]["descriptor"]["component"]
    assert template["spec"]["enableModuleConfig"] is True
    repository = f"modules/component-descriptors/{component['name']}"
    assert f"{registry}/{repository}:0.1.0@sha256:" in printed
    assert component["repositoryContexts"][0]["baseUrl"] == f"{registry}/modules"
    manifest = json.loads(await _fetch(f"http://{registry}/v2/{repository}/manifests/0.1.0"))
    config = json.loads(await _fetch(f"http://{registry}/v2/{repository}/blobs/{manifest['config']['digest']}"))
    descriptor_layer = config["componentDescriptorLayer"]
    assert descriptor_layer == manifest["layers"][0]
    name, text = await _file_in(f"http://{registry}/v2/{repository}/blobs/{descriptor_layer['digest']}")
    assert name == "component-descriptor.yaml"
    assert load_yaml(text) == template["spec"]["descriptor"]
    raw = next(each for each in component["resources"] if each["name"] == "raw-manifest")
    _, crd = await _file_in(f"http://{registry}/v2/{repository}/blobs/{raw['access']['localReference']}")
    assert load_yaml(crd)["kind"] == "CustomResourceDefinition"


async def test_registry_that_requires_credentials_gets_them(guarded_registry: str) -> None:
    assert (await _push(guarded_registry, Login(USER, PASSWORD))).startswith("sha256:")


@pytest.mark.parametrize("login", [None, Login(USER, "wrong")], ids=["none", "wrong"])
async def test_rejected_credentials_are_an_error(guarded_registry: str, login: Login | None) -> None:
    with pytest.raises(AccessRefused, match=r"needs credentials|check the registry's credentials"):
        await _push(guarded_registry, login)


async def _push(address: str, login: Login | None = None) -> str:
    registries = Registries()
    try:
        artifact = artifact_in(f"http://{address}", "some/where", "1.0.0")
        return await registries.push(artifact, Blob(b"{}", "application/json"), (), login)
    finally:
        await registries.close()


@asynccontextmanager
async def _registry(program: Path, folder: Path, more: dict[str, Any]) -> AsyncIterator[str]:
    address = f"127.0.0.1:{free_port()}"
    config = folder / "registry.yml"
    storage = {"storage": {"inmemory": {}}, "http": {"addr": address}, "log": {"level": "error"}}
    config.write_text(json.dumps({"version": 0.1, **storage, **more}))
    process = await asyncio.create_subprocess_exec(
        str(program), "serve", str(config), stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await _answers(f"http://{address}/v2/")
        yield address
    finally:
        process.terminate()
        await process.wait()


def _klm(*arguments: str) -> str:
    done = subprocess.run(
        [PROGRAM, "module", *arguments],
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


async def _answers(url: str) -> None:
    async with asyncio.timeout(60), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(url):
                    return
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.02)


async def _fetch(url: str) -> bytes:
    accept = {"Accept": "application/vnd.oci.image.manifest.v1+json"}
    async with aiohttp.ClientSession() as session, session.get(url, headers=accept) as response:
        assert response.status == 200, await response.text()
        content = await response.read()
    if "/blobs/" in url:
        assert url.endswith(hashlib.sha256(content).hexdigest())
    return content


async def _file_in(url: str) -> tuple[str, str]:
    with tarfile.open(fileobj=io.BytesIO(await _fetch(url))) as archive:
        (member,) = archive.getmembers()
        content: Any = archive.extractfile(member)
        return member.name, content.read().decode()
