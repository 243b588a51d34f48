"""Makes large texts in a process of its own, which starts with the first of them.

A thread that decodes and writes a large text holds the interpreter, for several milliseconds in some calls. Each return
of the event loop from the network would wait for that, and all clusters with it. The process has a lower priority, too.
What takes it too long, or ends it, concerns one text.
"""

import asyncio
import atexit
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import structlog

from lifecycle_manager.module_config import text
from lifecycle_manager.module_config.text import Made, Task, receive, send

__all__ = ["TextProcess"]

log = structlog.get_logger("module_config")

MAX_WAIT_SECONDS = 0.25
"""How long one text waits for the others."""
MAX_SECONDS = 5.0
"""How long one text may take; by its limits it takes a tenth of a second of CPU at most."""
LOST_SECONDS = 1.0
"""CPU seconds that a text counts which ended the process, or took it too long."""
_THREAD = ThreadPoolExecutor(max_workers=1, thread_name_prefix="texts")


class TextProcess:
    """Makes one text at a time. All of them share the process of this one."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        """The id of the process, None before the first text."""
        return _PROCESS.pid

    async def make(self, task: Task) -> Made | None:
        """Return the text, or why there is none; None where others take too long."""
        try:
            await asyncio.wait_for(self._lock.acquire(), MAX_WAIT_SECONDS)
        except TimeoutError:
            return None
        try:
            async with asyncio.timeout(MAX_SECONDS):
                return await asyncio.get_running_loop().run_in_executor(_THREAD, _PROCESS.answer, task)
        except TimeoutError:
            _PROCESS.kill()
            return Made(seconds=LOST_SECONDS)
        except asyncio.CancelledError:
            _PROCESS.abandon()
            raise
        finally:
            self._lock.release()


class _Process:
    """The process, started where it does not run. Only `kill` and `abandon` may be called from another thread."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._abandoned: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def answer(self, task: Task) -> Made:
        """Return what the process answers. Raises OSError where it can't be started."""
        process = self._process
        if process is None or process.poll() is not None:
            self.close()
            process = self._process = self._started()
        assert process.stdin is not None  # noqa: S101 - for the type checker; they are pipes
        assert process.stdout is not None  # noqa: S101
        made = None
        with suppress(OSError):
            send(process.stdin, task)
            made = receive(process.stdout, Made)
        if made is not None:
            return made
        self.close()
        if process is not self._abandoned:
            log.warning("the process that makes large texts ended", exit_code=process.returncode)
        return Made(seconds=LOST_SECONDS)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def abandon(self) -> None:
        """End the process because its answer is not needed any more; that is not logged as a failure."""
        self._abandoned = self._process
        self.kill()

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with suppress(OSError):  # what it did not read any more
                process.communicate()

    def _started(self) -> subprocess.Popen[bytes]:
        # -P: what lies in the working directory is not imported.
        command = (sys.executable, "-P", "-m", text.__name__)
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - this program


_PROCESS = _Process()
atexit.register(_PROCESS.close)
