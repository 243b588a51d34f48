"""OCI registries for the tests: a real one, Debian's `docker-registry`, where it can be had, and one that holds blobs
in memory, for the tests in which the registry is not the point."""

import asyncio
import hashlib
import io
import tarfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from kyma_local.ports import free_port
from kyma_local.starting import PortTaken, start_server
from lifecycle_manager.module_sources.downloads import DownloadFailed
from tests.debian import NoPackage, find_program
from tests.serving import serving

PACKAGE = "docker-registry"
NAME, PASSWORD = "puller", "keep out"
# `keep out` by bcrypt, as htpasswd writes it
HTPASSWD = "puller:$2b$04$hk2GY1Z4WSM3sEtVg/MrnuUKx9x5UzTxAueLkNIoH0GXBP8PAPIrG"
ATTEMPTS = 3


class NoRegistry(Exception):
    """There is no registry on this machine, and none could be fetched."""


async def no_link(link: str) -> str:
    """Raise what a link raises that nobody is to read."""
    raise DownloadFailed(f"{link} is not there")


def find_registry() -> Path:
    """Return the program of a real registry: on PATH, from the cache, or from Debian. Raises NoRegistry."""
    try:
        return find_program(PACKAGE, "registry")
    except NoPackage as error:
        raise NoRegistry(str(error)) from None


@asynccontextmanager
async def real_registry(directory: Path, *, private: bool = False) -> AsyncIterator[str]:
    """Run a real registry on loopback and give its host. A private one wants NAME and PASSWORD. Raises NoRegistry."""
    program = await asyncio.to_thread(find_registry)
    for attempt in range(ATTEMPTS):
        host = f"127.0.0.1:{free_port()}"
        config = directory / "registry.yaml"
        config.write_text(_configuration(directory, host, private))

        async def ready(host: str = host) -> bool:
            try:
                async with aiohttp.ClientSession() as session, session.get(f"http://{host}/v2/") as response:
                    return response.status in {200, 401}
            except aiohttp.ClientError:
                return False

        try:
            child = await start_server(PACKAGE, [str(program), "serve", str(config)], directory / "log", ready)
        except PortTaken:
            if attempt == ATTEMPTS - 1:
                raise
            continue
        try:
            yield host
        finally:
            await child.stop()
        return


async def push(host: str, repository: str, content: bytes, *, private: bool = False) -> str:
    """Bring a blob to a registry as its clients do; return its digest."""
    digest = digest_of(content)
    headers = {"Authorization": aiohttp.encode_basic_auth(NAME, PASSWORD)} if private else {}
    async with aiohttp.ClientSession(headers=headers, raise_for_status=True) as session:
        async with session.post(f"http://{host}/v2/{repository}/blobs/uploads/") as response:
            where = response.headers["Location"]
        async with session.put(where, params={"digest": digest}, data=content):
            return digest


async def put_manifest(host: str, repository: str, reference: str, document: Mapping[str, Any]) -> str:
    """Bring a manifest or an index to a private registry, under a tag; return its digest."""
    content = msgspec.json.encode(document)
    headers = {
        "Authorization": aiohttp.encode_basic_auth(NAME, PASSWORD),
        "Content-Type": document["mediaType"],
    }
    url = f"http://{host}/v2/{repository}/manifests/{reference}"
    async with aiohttp.ClientSession(headers=headers) as session, session.put(url, data=content) as response:
        assert response.status == 201, await response.text()
        return digest_of(content)


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def packed(files: Mapping[str, str | bytes]) -> bytes:
    """Return files as module teams pack them: a tar in gzip."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            body = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
    return buffer.getvalue()


@dataclass
class BlobServer:
    """A registry of blobs in memory, open to all; `asked` is what it was asked for.

    Of what is in `following` the rest is there under another name.
    """

    host: str = ""
    blobs: dict[str, bytes] = field(default_factory=dict)
    following: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def hold(self, content: bytes) -> str:
        """Take a blob, whatever its repository; return its digest."""
        digest = digest_of(content)
        self.blobs[digest] = content
        return digest

    async def answer(self, request: web.Request) -> web.Response:
        digest = request.path.rpartition("/")[2]
        self.asked.append(digest)
        if digest not in self.blobs:
            raise web.HTTPNotFound
        following = self.following.get(digest)
        where = request.path.rpartition("/")[0]
        headers = {"Link": f'<{where}/{following}?n=1>; rel="next"'} if following else {}
        return web.Response(body=self.blobs[digest], headers=headers)


@asynccontextmanager
async def blob_server() -> AsyncIterator[BlobServer]:
    server = BlobServer()
    async with serving(server.answer) as server.host:
        yield server


def _configuration(directory: Path, host: str, private: bool) -> str:
    (directory / "htpasswd").write_text(f"{HTPASSWD}\n")
    auth = f"auth: {{htpasswd: {{realm: modules, path: {directory / 'htpasswd'}}}}}\n" if private else ""
    return (
        f"version: 0.1\nlog: {{level: warn}}\nstorage: {{filesystem: {{rootdirectory: {directory / 'blobs'}}}}}\n"
        f"http: {{addr: '{host}', host: 'http://{host}'}}\n{auth}"
    )
