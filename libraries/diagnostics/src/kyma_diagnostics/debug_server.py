"""Answers questions about a running program on a local socket that only its own user can open.

A thread answers, so that a blocked event loop can be looked into as well. An answer names tasks, functions, files and
lines, and never a value. It is bounded in size, and one client is served at a time, for a bounded time.
"""

import asyncio
import logging
import os
import resource
import socket
import socketserver
import stat
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from concurrent import futures
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import FrameType

from kyma_diagnostics.debug_client import printable

Report = Callable[[], Iterable[str]]
"""Returns lines. It is called on the event loop."""

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
CLIENT_SECONDS = 5.0
"""Without a byte."""
MAX_CLIENT_SECONDS = 30.0
LOOP_SECONDS = 2.0
MAX_COMMAND_BYTES = 200
MAX_ANSWER_BYTES = 256 * 1024
MAX_LINES = 200
MAX_FRAMES = 30
MAX_AWAITS = 100
ROUND_TRIPS = 10


class DebugSocketUnusable(Exception):
    """The debug socket can't be made; the text says why."""


class _Refused(Exception):
    """The command is unknown, or could not be carried out."""


@asynccontextmanager
async def debug_socket(path: Path | None, reports: Mapping[str, Report]) -> AsyncIterator[None]:
    """Answer inside the context about the process and its event loop; nothing without a path.

    `reports` are commands beside those of every program. Raises DebugSocketUnusable.
    """
    if path is None:
        yield
        return
    answers = _Answers(asyncio.get_running_loop(), reports)
    server = _bound(path, answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="debug socket", daemon=True)
    thread.start()
    try:
        yield
    finally:
        await asyncio.to_thread(server.shutdown)  # it may be waiting for a client
        thread.join()
        server.server_close()
        await asyncio.to_thread(path.unlink, missing_ok=True)


class _Answers:
    """Answers commands."""

    def __init__(self, loop: asyncio.AbstractEventLoop, reports: Mapping[str, Report]) -> None:
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._on_loop: dict[str, Report] = {"tasks": self._tasks, **reports}
        self._elsewhere: dict[str, Report] = {"stacks": self._stacks, "loop": self._loop_state}

    def answer(self, command: str) -> Iterable[str]:
        """Return the lines of an answer. Raises _Refused."""
        name, _, argument = command.partition(" ")
        if name == "log-level":
            return self._log_level(argument)
        if argument:
            raise _Refused(f"{name} takes no argument")
        if name in self._elsewhere:
            return self._elsewhere[name]()
        if name in self._on_loop:
            return self._ask_loop(self._on_loop[name])
        known = sorted({*self._elsewhere, *self._on_loop, "log-level"})
        raise _Refused(f"unknown command; expected one of {', '.join(known)}")

    def _ask_loop(self, report: Report) -> list[str]:
        found: futures.Future[list[str]] = futures.Future()

        def ask() -> None:
            try:
                found.set_result(list(report()))
            except Exception as error:  # noqa: BLE001 - it concerns this answer alone
                found.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(ask)
            return found.result(LOOP_SECONDS)
        except TimeoutError:
            raise _Refused(f"the event loop did not answer for {LOOP_SECONDS:g} s: ask for `stacks`") from None
        except Exception as error:
            raise _Refused(f"no answer: {type(error).__name__}") from error

    def _tasks(self) -> Iterator[str]:
        """Count the tasks by what they run and where they wait."""
        tasks = asyncio.all_tasks(self._loop)
        yield f"{len(tasks)} tasks"
        places = Counter((_function_of(each), _place(each.get_coro())) for each in tasks)
        for (function, place), count in places.most_common(MAX_LINES):
            yield f"{count:6}  {function}  {place}"

    def _stacks(self) -> Iterator[str]:
        """Show where each thread is, with the event loop's first."""
        names = {each.ident: each.name for each in threading.enumerate()}
        frames = sys._current_frames()  # noqa: SLF001 - there is no public way to another thread's stack
        for ident in sorted(frames, key=lambda each: each != self._loop_thread):
            what = " (event loop)" if ident == self._loop_thread else ""
            yield f"thread {names.get(ident, ident)}{what}"
            for frame in traceback.extract_stack(frames[ident])[-MAX_FRAMES:]:
                yield f"    {frame.filename}:{frame.lineno} in {frame.name}"

    def _loop_state(self) -> Iterator[str]:
        """Measure how long the loop takes to answer, and tell what the process uses."""
        waits = sorted(self._round_trip() for _ in range(ROUND_TRIPS))
        used = resource.getrusage(resource.RUSAGE_SELF)
        yield f"event loop      {type(self._loop).__module__}.{type(self._loop).__name__}"
        yield f"answers after   {waits[ROUND_TRIPS // 2] * 1e3:.2f} ms, {waits[-1] * 1e3:.2f} ms at most"
        yield f"threads         {threading.active_count()}"
        yield f"CPU time        {used.ru_utime + used.ru_stime:.1f} s"
        yield f"memory at most  {used.ru_maxrss / 1000:.0f} MB"

    def _round_trip(self) -> float:
        began = time.perf_counter()
        self._ask_loop(tuple)
        return time.perf_counter() - began

    @staticmethod
    def _log_level(level: str) -> Iterator[str]:
        logger = logging.getLogger()
        if level:
            if level.upper() not in LEVELS:
                raise _Refused(f"unknown level; expected one of {', '.join(LEVELS)}")
            logger.setLevel(level.upper())
            logging.getLogger("kyma_diagnostics").warning("the log level is %s now", level.upper())
        return iter((logging.getLevelName(logger.level),))


class _Server(socketserver.UnixStreamServer):
    request_queue_size = 4

    def __init__(self, path: str, answers: _Answers) -> None:
        self.answers = answers
        super().__init__(path, _Handler)


class _Handler(socketserver.StreamRequestHandler):
    server: _Server
    timeout = CLIENT_SECONDS

    def handle(self) -> None:
        """Answer one command with `ok` or `error`, and lines."""
        end = threading.Timer(MAX_CLIENT_SECONDS, self._end)
        end.daemon = True
        end.start()
        try:
            command = self.rfile.readline(MAX_COMMAND_BYTES).decode(errors="replace").strip()
            try:
                answer = "\n".join(("ok", *self.server.answers.answer(command)))
            except _Refused as refused:
                answer = f"error\n{refused}"
            self.wfile.write(printable(answer).encode()[:MAX_ANSWER_BYTES] + b"\n")
        except OSError:
            return  # the client has gone, or takes too long
        finally:
            end.cancel()

    def _end(self) -> None:
        """End the connection of a client that reads or writes byte by byte."""
        with suppress(OSError):
            self.request.shutdown(socket.SHUT_RDWR)


def _bound(path: Path, answers: _Answers) -> _Server:
    """Make the socket. Raises DebugSocketUnusable."""
    mask = os.umask(0o177)  # of the socket from its first moment
    try:
        _remove_stale(path)
        return _Server(str(path), answers)
    except OSError as error:
        raise DebugSocketUnusable(f"debug socket {path}: {error.strerror or error}") from error
    finally:
        os.umask(mask)


def _remove_stale(path: Path) -> None:
    """Remove the socket of a process that has ended. Raises DebugSocketUnusable or OSError."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise DebugSocketUnusable(f"debug socket {path}: a file of another kind is there")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(CLIENT_SECONDS)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
    raise DebugSocketUnusable(f"debug socket {path}: another process answers there")


def _function_of(task: "asyncio.Task[object]") -> str:
    coroutine = task.get_coro()
    return getattr(coroutine, "__qualname__", None) or type(coroutine).__name__


def _place(awaited: object) -> str:
    """Return the innermost line at which a coroutine waits."""
    found: FrameType | None = None
    for _ in range(MAX_AWAITS):
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is None:
            break
        found = frame
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return "between two turns" if found is None else f"{found.f_code.co_filename}:{found.f_lineno}"
