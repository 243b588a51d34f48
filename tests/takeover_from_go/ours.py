"""This version as a child process, which can be stopped, killed and paused."""

import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from kyma_local.processes import ChildProcess
from kyma_local.starting import start_server
from tests.klm import KLM
from tests.serving import WITHOUT_TLS


@dataclass(eq=False)
class OurLifecycleManager:
    """`klm run` with options by the names of their settings, and the kubeconfig of the control plane."""

    kubeconfig: Path
    folder: Path
    options: Mapping[str, Any]
    child: ChildProcess | None = field(default=None, init=False)

    async def start(self) -> None:
        """Start it, and wait until it answers whether it is ready. Raises StartFailed."""
        command = [str(KLM), "run", f"--kubeconfig={self.kubeconfig}", *self._arguments()]
        self.child = await start_server("lifecycle-manager", command, self.folder / "ours.log", self._answers)

    async def stop(self) -> None:
        """Stop it in order."""
        if self.child is not None:
            await self.child.stop()

    async def kill(self) -> None:
        """End it by kill -9."""
        if self.child is not None:
            await self.child.kill()

    def pause(self) -> None:
        """Have it stand still, as on a machine that does."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Have it go on after a pause."""
        self._signal(signal.SIGCONT)

    @property
    def has_ended(self) -> bool:
        return self.child is None or self.child.returncode is not None

    async def readiness(self) -> tuple[int, str]:
        """Return what it answers at /readyz."""
        async with httpx.AsyncClient(verify=WITHOUT_TLS, trust_env=False, timeout=10) as client:
            answer = await client.get(f"http://{self.options['health_probe_bind_address']}/readyz")
        return answer.status_code, answer.text

    async def is_ready(self) -> bool:
        return (await self.readiness())[0] == 200

    async def _answers(self) -> bool:
        try:
            await self.readiness()
        except httpx.HTTPError:
            return False
        return True

    def _signal(self, number: signal.Signals) -> None:
        assert self.child is not None
        os.kill(self.child.pid, number)

    def _arguments(self) -> Iterator[str]:
        for key, value in self.options.items():
            name = key.replace("_", "-")
            if isinstance(value, bool):
                yield f"--{name}" if value else f"--no-{name}"
            else:
                yield f"--{name}={value}"
