"""Helm, in the version pinned here."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from kyma_local.go_programs import GoProgram
from kyma_local.progress import SILENT, Listener

HELM = GoProgram(
    name="helm",
    module="helm.sh/helm/v4",
    version="v4.3.1",
    version_variable="helm.sh/helm/v4/internal/version.version",
)
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


def find_helm(listener: Listener = SILENT) -> Path:
    """Return the program helm, built if necessary. Raises SourceFailed."""
    return HELM.find(listener)
