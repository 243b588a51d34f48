"""The programs of the demo end in the reverse order of their first start."""

import sys
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import cast

from kube_runtime import Client
from kyma_demo.environment import Environment
from kyma_demo.processes import Program
from kyma_demo.programs import Programs
from tests.waiting import eventually

SOURCE = """
import pathlib, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print("ready", flush=True)
signal.sigwait({signal.SIGTERM})
with pathlib.Path(sys.argv[2]).open("a") as ended:
    ended.write(sys.argv[1] + " ")
"""


async def test_program_that_was_restarted_still_ends_after_later_ones(tmp_path: Path) -> None:
    """The Watcher delivers what is pending while the Lifecycle Manager takes it."""
    ended, client = tmp_path / "ended", cast("Client", None)  # the programs need no cluster
    environment = Environment(client, client, tmp_path / "kcp", tmp_path / "skr", tmp_path, None)
    async with AsyncExitStack() as stack:
        programs = Programs(environment, stack)
        for name, starts in (("manager", 1), ("watcher", 1), ("manager", 2)):
            await programs.start(Program(name, (sys.executable, "-c", SOURCE, name, str(ended)), {}))
            await eventually(partial(_were_ready, environment.logs / f"{name}.log", starts))
    assert ended.read_text().split() == ["manager", "watcher", "manager"]


def _were_ready(log: Path, starts: int) -> bool:
    return log.read_text().count("ready") == starts
