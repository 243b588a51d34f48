"""The Lifecycle Manager in Go as a child process: GO_LIFECYCLE_MANAGER names the program, built in `bin` of its source.

It reads `skr-webhook` in the folder in which it runs, and its CRDs are in `config` beside it.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from kyma_local.ports import free_port
from kyma_local.processes import ChildProcess
from kyma_local.starting import answers, start_server
from lifecycle_manager_api import names
from tests.takeover_from_go.pod import in_pod

PROGRAM = "GO_LIFECYCLE_MANAGER"
DEFINITIONS = ("config/crd/bases/operator.kyma-project.io_*.yaml", "config/samples/tests/crds/*.crds.yaml")


def find_program() -> Path | None:
    """Return the program, None where none is named."""
    given = os.environ.get(PROGRAM)
    return Path(given).resolve(strict=True) if given else None


def source_of(program: Path) -> Path:
    """Return the folder of its source."""
    return next(each for each in program.parents if (each / "skr-webhook" / "resources.yaml").exists())


def definitions_of(program: Path) -> Iterator[Path]:
    """Yield the files with the CRDs of the control plane: its own, and those of cert-manager and Istio."""
    for pattern in DEFINITIONS:
        yield from sorted(source_of(program).glob(pattern))


@dataclass(frozen=True)
class Line:
    """A line of its log."""

    level: str
    message: str
    error: str

    @property
    def kind(self) -> str:
        """What it says, without names and numbers."""
        return re.sub(r"[0-9a-f-]{7,}|\d+", "…", f"{self.message}: {self.error}")

    @classmethod
    def of(cls, text: str) -> "Line | None":
        """Read a line; None for what is none of its own, such as a stack."""
        try:
            content = json.loads(text)
        except ValueError:
            return None
        context = content.get("context") or {}
        return cls(content.get("level", ""), content.get("msg", ""), context.get("error", ""))


@dataclass(eq=False)
class GoLifecycleManager:
    """The program with a kubeconfig of the control plane. `options` is given beside those of each run.

    `pod`: the name of the Pod that it runs in, without which it elects no leader.
    """

    program: Path
    kubeconfig: Path
    folder: Path
    options: Mapping[str, str]
    pod: str = ""
    metrics_port: int = field(default_factory=free_port)
    listener_port: int = field(default_factory=free_port)
    runs: list[Path] = field(default_factory=list)
    child: ChildProcess | None = None

    @property
    def arguments(self) -> list[str]:
        """Its command line."""
        fixed = {
            "kubeconfig": str(self.kubeconfig),
            "leader-elect": str(bool(self.pod)).lower(),
            "metrics-bind-address": f"127.0.0.1:{self.metrics_port}",
            "health-probe-bind-address": f"127.0.0.1:{free_port()}",
            "kyma-skr-listener-bind-address": f"127.0.0.1:{self.listener_port}",
        }
        return [f"--{name}={value}" for name, value in {**fixed, **self.options}.items()]

    async def start(self) -> None:
        """Start it, if it does not run, and wait until it serves its metrics. Raises StartFailed."""
        if self.child is not None and self.child.returncode is None:
            return
        log = self.folder / f"go-{len(self.runs) + 1}.log"
        self.runs.append(log)
        command = ["env", "-C", str(source_of(self.program)), str(self.program), *self.arguments]
        if self.pod:
            command = in_pod(self.pod, names.KCP_NAMESPACE, command)
        async with httpx.AsyncClient() as client:
            url = f"http://127.0.0.1:{self.metrics_port}/metrics"
            self.child = await start_server("lifecycle-manager in Go", command, log, lambda: answers(client, url))

    async def stop(self) -> None:
        """Stop it, if it runs."""
        if self.child is not None:
            await self.child.stop(20)
            self.child = None

    def lines(self, run: int = -1) -> list[Line]:
        """Return the lines of the log of a run."""
        texts = self.runs[run].read_text(errors="replace").splitlines()
        return [line for text in texts if (line := Line.of(text)) is not None]

    def errors(self, run: int = -1) -> list[Line]:
        """Return the errors in the log of a run."""
        return [each for each in self.lines(run) if each.level == "ERROR"]
