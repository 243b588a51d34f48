"""Helm: built once from its Go module, in the version pinned here, and cached."""

import asyncio
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from kyma_local.binaries import cache_root, locked
from kyma_local.go_modules import GoModule, find_go
from kyma_local.progress import Listener, Silent
from kyma_local.sources import install

HELM = "v4.3.1"
MODULE = "helm.sh/helm/v4"
VERSION_PACKAGE = f"{MODULE}/internal/version"
# Programs start one after the other on busy machines; only one that hangs takes that long.
TIMEOUT_SECONDS = 200
COMMAND_SECONDS = TIMEOUT_SECONDS + 40.0
WAITING = ("--wait", f"--timeout={TIMEOUT_SECONDS}s")


class HelmFailed(Exception):
    """Helm failed; the message is its output."""


@dataclass(frozen=True)
class Helm:
    """Runs helm with a home folder of its own, as administrator of one cluster."""

    program: Path
    home: Path
    kubeconfig: Path | None = None

    async def run(self, *arguments: str) -> str:
        """Run a command and return its output. Raises HelmFailed."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        if self.kubeconfig is not None:
            environment["KUBECONFIG"] = str(self.kubeconfig)
        process = await asyncio.create_subprocess_exec(
            str(self.program),
            *arguments,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(COMMAND_SECONDS):
                printed, errors = await process.communicate()
        except BaseException:
            process.kill()
            await process.wait()
            raise
        if process.returncode:
            raise HelmFailed(errors.decode())
        return printed.decode()


def find_helm(listener: Listener | None = None, *, version: str = HELM) -> Path:
    """Return the program helm, built if necessary. Two processes that need it at the same time build it once.

    Raises SourceFailed.
    """
    cache = cache_root() / f"helm-{version}"
    program = cache / "helm"
    if os.access(program, os.X_OK):
        return program
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache.with_name(f"{cache.name}.lock")):
        if not os.access(program, os.X_OK):
            _build(cache, version, listener or Silent())
    return program


def _build(target: Path, version: str, listener: Listener) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="fetching-") as scratch:
        helm = GoModule(
            find_go(Path(scratch), listener), Path(scratch) / "helm", MODULE, version, (f"{MODULE}/cmd/helm",)
        )
        listener.doing(f"Helm {version}: downloading its Go modules")
        helm.prepare()
        listener.doing(f"Helm {version}: building, once")
        for program in helm.build(f"-s -w -X {VERSION_PACKAGE}.version={version}", listener.done):
            install(program, target)
