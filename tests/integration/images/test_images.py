"""The contents of the images without a container engine: installed from the lock as the Dockerfile does, into a
read-only folder, and run as the images' user with a temporary folder as the only writable place."""

import asyncio
import os
import re
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from kube_runtime import Client
from kyma_certs import LeafRequest, create_ca, issue
from kyma_local.ports import free_port
from lifecycle_manager.process.crd_installation import apply_objects
from lifecycle_manager_api import names
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("images")
DOCKERFILE = Path("Dockerfile").read_text()
USER = 10001
IMAGES = ("lifecycle-manager", "skr-watcher", "module-manager")
Installed = Callable[[str], Path]


@pytest.fixture(scope="session")
def root() -> Iterator[Path]:
    """A folder that the images' user can read; pytest's temporary folders are closed to other users."""
    with tempfile.TemporaryDirectory(prefix="klm-images-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(scope="session")
def installed(root: Path, context: Path) -> Installed:
    """Install the contents of an image, once; read-only like the file system of the container."""

    def install(image: str) -> Path:
        folder = root / image
        if not folder.exists():
            environment = {**os.environ, "UV": str(Path(sys.executable).with_name("uv")), "UV_PYTHON": _interpreter()}
            command = ["tools/images/install.sh", image, str(folder)]
            subprocess.run(command, cwd=context, env=environment, check=True, timeout=300)
            for path in (folder, *folder.rglob("*")):
                if not path.is_symlink():
                    path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
        return folder

    return install


def test_each_target_of_the_dockerfile_is_installed_and_runs_as_the_same_user() -> None:
    targets = {name for name in re.findall(r"^FROM \S+ AS (\S+)", DOCKERFILE, re.MULTILINE) if name in IMAGES}
    assert targets == set(IMAGES)
    assert set(re.findall(r"tools/images/install.sh (\S+) /opt/kyma", DOCKERFILE)) == targets
    assert f"USER {USER}:{USER}" in DOCKERFILE
    assert re.search(r"^ARG PYTHON=python:\d+\.\d+\.\d+-", DOCKERFILE, re.MULTILINE)
    for file in ("Makefile", "Dockerfile"):  # uv is that of the hashes
        assert re.search(r"pip install .*--require-hashes .*-r \S*uv\.txt", Path(file).read_text())
    assert re.search(r"\nuv==\d+\.\d+\.\d+ \\\n    --hash=sha256:", Path("tools/images/uv.txt").read_text())


@pytest.mark.parametrize("image", IMAGES)
def test_entry_point_of_the_image_is_installed(installed: Installed, image: str) -> None:
    stage = DOCKERFILE.partition(f" AS {image}\n")[2]
    entry_point = re.search(r'ENTRYPOINT \["([\w-]+)"', stage)
    assert entry_point is not None
    assert os.access(installed(image) / "bin" / entry_point[1], os.X_OK)


def test_image_of_the_watcher_has_only_the_watcher_and_its_requirements(installed: Installed) -> None:
    (packages,) = installed("skr-watcher").glob("lib/python*/site-packages")
    present = {path.name for path in packages.iterdir()}
    ours = {name.partition("-")[0] for name in present if re.fullmatch(r"kyma_\w+-[\d.]+\.dist-info", name)}
    assert ours == {"kyma_certs", "kyma_diagnostics", "kyma_http_guard", "kyma_skr_watcher"}
    assert {"http_guard", "kyma_certs", "opentelemetry", "skr_watcher", "uvicorn"} <= present  # with traces
    assert not present & {"aiohttp", "httpx", "kubernetes_asyncio", "structlog", "typer"}


@pytest.mark.parametrize("image", IMAGES)
def test_image_has_no_development_tools(installed: Installed, image: str) -> None:
    (packages,) = installed(image).glob("lib/python*/site-packages")
    assert not {path.name for path in packages.iterdir()} & {"pytest", "mypy", "ruff", "hypothesis", "pip"}


async def test_watcher_runs_as_the_images_user_on_a_read_only_tree(installed: Installed, root: Path) -> None:
    now, year = datetime.now(UTC), timedelta(days=365)
    ca = create_ca("test", lifetime=year, now=now)
    pair = issue(ca, LeafRequest(common_name="runtime", dns_names=("skr-webhook.kyma-system.svc",)), now=now)
    tls = root / "tls"
    tls.mkdir()
    contents = {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem, "ca.crt": ca.certificate_pem}
    for name, content in contents.items():
        (tls / name).write_bytes(content)
    webhook, metrics = free_port(), free_port()
    environment = {
        "WEBHOOK_HOST": "127.0.0.1",
        "WEBHOOK_PORT": str(webhook),
        "METRICS_HOST": "127.0.0.1",
        "METRICS_PORT": str(metrics),
        "KCP_ADDR": f"127.0.0.1:{free_port()}",
        "DRAIN_SECONDS": "0.5",  # there is no control plane to deliver to
        "TLS_CERT": str(tls / "tls.crt"),
        "TLS_KEY": str(tls / "tls.key"),
        "CA_CERT": str(tls / "ca.crt"),
    }
    async with _running(installed("skr-watcher"), root, ("skr-watcher",), environment):
        await _answers(f"http://127.0.0.1:{metrics}/readyz")


async def test_lifecycle_manager_runs_as_the_images_user_on_a_read_only_tree(
    installed: Installed, root: Path, kcp: Path
) -> None:
    program = installed("lifecycle-manager")
    kubeconfig = _open_copy(kcp, root)
    async with _running(program, root, ("klm", "crds", "--kubeconfig", str(kubeconfig)), {}) as applying:
        assert await applying.wait() == 0
    health = free_port()
    arguments = (
        "run",
        f"--kubeconfig={kubeconfig}",
        f"--kyma-skr-listener-bind-address=127.0.0.1:{free_port()}",
        "--metrics-bind-address=127.0.0.1:0",
        f"--health-probe-bind-address=127.0.0.1:{health}",
        f"--replica-bind-address=127.0.0.1:{free_port()}",
        "--event-address=127.0.0.1:443",
        f"--leader-election-namespace={names.KCP_NAMESPACE}",
        "--allow-unprotected-modules",  # it is an administrator here
    )
    await _ensure_namespace(kcp)
    async with _running(program, root, ("klm", *arguments), {}):
        await _answers(f"http://127.0.0.1:{health}/readyz")
    async with _running(installed("module-manager"), root, ("kyma-module-manager", "--help"), {}) as helping:
        assert await helping.wait() == 0


@asynccontextmanager
async def _running(
    folder: Path, root: Path, command: tuple[str, ...], environment: dict[str, str]
) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """Run a program of an image as its user, with a temporary folder as the only place to write to."""
    identity = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory(dir=root) as temporary:
        if identity:
            os.chown(temporary, USER, USER)
        process = await asyncio.create_subprocess_exec(
            str(folder / "bin" / command[0]),
            *command[1:],
            env={"PATH": f"{folder}/bin", "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": temporary, **environment},
            cwd="/",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            **identity,  # type: ignore[arg-type]  # keywords of Popen
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.terminate()
            assert await asyncio.wait_for(process.wait(), 120) == 0
            assert _is_empty(Path(temporary))


def _open_copy(kubeconfig: Path, folder: Path) -> Path:
    copy = folder / "kubeconfig"
    copy.write_bytes(kubeconfig.read_bytes())
    return copy


def _is_empty(folder: Path) -> bool:
    return not list(folder.iterdir())


async def _answers(url: str) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:

        async def ready() -> bool:
            try:
                return (await client.get(url)).is_success
            except httpx.HTTPError:
                return False

        await eventually(ready)


async def _ensure_namespace(kubeconfig: Path) -> None:
    async with await Client.from_environment(kubeconfig) as client:
        await apply_objects(client, f"{{apiVersion: v1, kind: Namespace, metadata: {{name: {names.KCP_NAMESPACE}}}}}")


def _interpreter() -> str:
    """Return a Python that the images' user can run; one in a home folder is closed to it."""
    identity = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
    check = "import ssl, sys; sys.exit(sys.version_info < (3, 11))"
    for candidate in (getattr(sys, "_base_executable", sys.executable), "/usr/local/bin/python3", "/usr/bin/python3"):
        try:
            done = subprocess.run([candidate, "-c", check], cwd="/", env={}, check=False, **identity)  # type: ignore[call-overload]
        except OSError:
            continue
        if done.returncode == 0:
            return str(candidate)
    pytest.skip("other users can run no Python 3.11 of this machine")
