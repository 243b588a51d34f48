"""The kinds of Module CRs, from the template and from files on an HTTPS server."""

import asyncio
import hashlib
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from kube_runtime import dump_yaml
from kyma_certs import LeafRequest, Usage, create_ca, issue
from lifecycle_manager.module_catalog.module_kinds import ModuleCrKind, ModuleKinds, TemplateUnreadable
from lifecycle_manager.module_sources.downloads import MAX_BYTES, DownloadFailed, Downloads
from lifecycle_manager_api import ModuleTemplate
from tests import builders
from tests.kinds import crd_of
from tests.serving import serving
from tests.unit.kube_runtime.test_kubeconfigs_as_kubectl_reads_them import api_server, signed


@dataclass
class Files:
    """A server of files, and the requests to it."""

    base: str = ""
    contents: dict[str, bytes] = field(default_factory=dict)
    dripping: set[str] = field(default_factory=set)
    redirects: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request, after a moment in which others can come in."""
        name = request.match_info["path"]
        self.asked.append(name)
        await asyncio.sleep(0.01)
        if name in self.redirects:
            raise web.HTTPFound(self.redirects[name])
        if name in self.dripping:
            return await _drip(request)
        if name not in self.contents:
            raise web.HTTPNotFound
        return web.Response(body=self.contents[name])


async def _drip(request: web.Request) -> web.StreamResponse:
    """Send a byte now and then, without an end."""
    response = web.StreamResponse()
    await response.prepare(request)
    with suppress(ConnectionError):
        while True:
            await response.write(b"#")
            await asyncio.sleep(0.05)
    return response


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[Files]:
    files = Files()
    async with serving(files.answer, _server_context(tmp_path), name="localhost") as host:
        files.base = f"https://{host}"
        yield files


@pytest.fixture
def kinds(files: Files, tmp_path: Path) -> ModuleKinds:
    """What is tested, with trust in that server."""
    return ModuleKinds(Downloads(ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))).text)


def crd(kind: str, *served: str, scope: str = "Namespaced") -> str:
    return dump_yaml(crd_of("example.com", kind, *served, scope=scope))


def template(link: str, content: bytes = b"", *, generation: int = 1) -> ModuleTemplate:
    """Return a template with a link, whose content is recorded."""
    made = builders.template(data=None, uid="uid-of-template", generation=generation)
    resources = [{"name": "rawManifest", "link": link}]
    document = msgspec.json.decode(msgspec.json.encode(made))
    document["spec"]["resources"] = resources
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    document["status"] = {"pinnedLink": {"url": link, "version": made.spec.version, "digest": digest}}
    return msgspec.json.decode(msgspec.json.encode(document), type=ModuleTemplate)


DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: operator}\n"


async def test_kinds_are_those_of_the_crds_in_the_resources(files: Files, kinds: ModuleKinds) -> None:
    text = "---\n".join((crd("Tea", "v1alpha1", "v1"), DEPLOYMENT, crd("Cup", scope="Cluster")))
    files.contents["manifest.yaml"] = text.encode()
    wanted = template(f"{files.base}/manifest.yaml", files.contents["manifest.yaml"])
    assert kinds.known(wanted) == ()

    found = await kinds.of(wanted)

    assert found == (
        ModuleCrKind("example.com/v1", "Tea", "kyma-system", "default"),
        ModuleCrKind("example.com/v1", "Cup", "", "default"),
    )
    assert kinds.known(wanted) == found


async def test_template_of_a_restored_server_has_other_kinds_in_the_same_generation(
    files: Files, kinds: ModuleKinds
) -> None:
    found: list[ModuleCrKind] = []
    for kind in ("Lost", "Kept"):
        files.contents[kind] = crd(kind).encode()
        found += await kinds.of(template(f"{files.base}/{kind}", files.contents[kind], generation=2))

    assert [each.kind for each in found] == ["Lost", "Kept"]


async def test_kind_of_the_default_module_cr_needs_no_download(files: Files, kinds: ModuleKinds) -> None:
    found = await kinds.of(builders.template())

    assert [kind.kind for kind in found] == ["Infrastructure"]
    assert files.asked == []


async def test_template_without_default_module_cr_and_link_has_no_kinds(kinds: ModuleKinds) -> None:
    assert await kinds.of(builders.template(data=None)) == ()


async def test_resources_are_downloaded_once_for_each_version(files: Files, kinds: ModuleKinds) -> None:
    files.contents["manifest.yaml"] = crd("Tea").encode()
    wanted = template(f"{files.base}/manifest.yaml", files.contents["manifest.yaml"])

    await asyncio.gather(*(kinds.of(wanted) for _ in range(20)))
    assert files.asked == ["manifest.yaml"]

    files.contents["manifest.yaml"] = crd("Coffee").encode()
    next_version = template(f"{files.base}/manifest.yaml", files.contents["manifest.yaml"], generation=2)
    assert [kind.kind for kind in await kinds.of(next_version)] == ["Coffee"]


async def test_redirect_is_followed_where_it_stays_on_https(files: Files, kinds: ModuleKinds) -> None:
    files.contents["there"] = crd("Tea").encode()
    files.redirects["here"] = f"{files.base}/there"

    assert [kind.kind for kind in await kinds.of(template(f"{files.base}/here", files.contents["there"]))] == ["Tea"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("missing", "returned status 404"),
        ("plain", "is not an https address"),
        ("loop", "redirects more than 3 times"),
        ("large", "is larger than"),
        ("no-yaml", "document 0"),
        ("binary", "can't be read"),
    ],
)
async def test_unreadable_resources_are_reported_with_the_template(
    files: Files, kinds: ModuleKinds, name: str, expected: str
) -> None:
    files.redirects |= {"plain": "http://127.0.0.1/x", "loop": f"{files.base}/loop"}
    files.contents |= {"large": b"x" * (MAX_BYTES + 1), "no-yaml": b"kind: [", "binary": b"\xff\xfe\x00"}

    with pytest.raises(TemplateUnreadable) as unreadable:
        await kinds.of(template(f"{files.base}/{name}"))

    assert "ModuleTemplate cloud-resources-0.1.0: " in str(unreadable.value)
    assert expected in str(unreadable.value)
    files.contents[name], files.redirects = crd("Tea").encode(), {}
    assert await kinds.of(template(f"{files.base}/{name}", files.contents[name]))  # not remembered: it may be mended


async def test_server_with_an_untrusted_certificate_is_not_read(files: Files) -> None:
    files.contents["manifest.yaml"] = crd("Tea").encode()

    with pytest.raises(TemplateUnreadable, match="certificate verify failed"):
        await ModuleKinds(Downloads().text).of(template(f"{files.base}/manifest.yaml"))


async def test_old_fashioned_ca_of_the_machine_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the fields that Python asks for, from 3.13, where it makes a context."""
    root = signed("root", None)
    (tmp_path / "ca.pem").write_bytes(root.certificate_pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    async with api_server(tmp_path, signed("server", root, is_ca=False)) as (port, _):
        assert "gitVersion" in await Downloads().text(f"https://127.0.0.1:{port}/version")


async def test_link_that_is_not_https_is_not_read(kinds: ModuleKinds) -> None:
    for link in ("http://localhost/x", "file:///etc/passwd", "/etc/passwd"):
        with pytest.raises(TemplateUnreadable, match="not an https address"):
            await kinds.of(template(link))


def _server_context(folder: Path) -> ssl.SSLContext:
    now = datetime.now(UTC)
    ca = create_ca("test", lifetime=timedelta(days=1), now=now)
    pair = issue(
        ca,
        LeafRequest(common_name="localhost", dns_names=("localhost",), usages=frozenset({Usage.SERVER})),
        now=now,
    )
    (folder / "ca.crt").write_bytes(ca.certificate_pem)
    (folder / "tls.crt").write_bytes(pair.certificate_pem)
    (folder / "tls.key").write_bytes(pair.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context


async def test_file_that_comes_without_an_end_is_given_up(files: Files, tmp_path: Path) -> None:
    files.dripping.add("module.yaml")
    downloads = Downloads(ssl.create_default_context(cafile=str(tmp_path / "ca.crt")), timeout_seconds=2.0)
    with pytest.raises(DownloadFailed, match=r"timed out after 2 s"):
        await downloads.text(f"{files.base}/module.yaml")
