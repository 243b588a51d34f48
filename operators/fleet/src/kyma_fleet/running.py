"""How a command runs: with a client of the control plane, and with one line for what fails."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TypeVar

import typer
import uvloop

from kube_runtime import (
    Client,
    ClientOptions,
    ClusterUnreachable,
    KubeError,
    NotFound,
    NotServed,
    ServerUnavailable,
    TooManyRequests,
)
from kyma_fleet.control_plane import with_close_name
from kyma_fleet.problems import Problem, line_for
from kyma_fleet.screen import say

T = TypeVar("T")
R = TypeVar("R")
INTERRUPTIONS = (ClusterUnreachable, ServerUnavailable, TooManyRequests)
"""What an API server that restarts answers for a while."""
RETRY_SECONDS = 1.0
FAILED = 2
"""The exit code of a command that could not do what it was asked for; 1 is an answer, such as that of a drift."""

OPTIONS = ClientOptions(
    timeout_seconds=30, connect_timeout_seconds=5, qps=0, attempts=2, user_agent="klm", watch_seconds=280
)


def run(
    kubeconfig: Path | None,
    context: str | None,
    command: Callable[[Client], Awaitable[int]],
    *,
    otherwise: Callable[[], None] = lambda: None,
    options: str = "--",
) -> None:
    """Run a command with a client of a control plane, by default that of kubectl, and leave with its exit code.

    SIGTERM ends it as Ctrl-C does: it cleans up. `otherwise` prints what is known without the control plane. `options`
    is how those begin that choose the control plane.
    """
    ended_by = signal.SIGINT

    async def main() -> int:
        task = asyncio.current_task()

        def terminate() -> None:
            nonlocal ended_by
            ended_by = signal.SIGTERM
            if task is not None:
                task.cancel()

        if threading.current_thread() is threading.main_thread():  # no other hears signals
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
        async with await Client.from_environment(kubeconfig, options=OPTIONS, context=context) as kcp:
            try:
                return await command(kcp)
            except (NotFound, NotServed) as error:
                raise await with_close_name(kcp, error) from None

    try:
        code = uvloop.run(main())
    except BrokenPipeError:  # whoever reads the output has enough; `main` of klm leaves the rest out
        code = 0
    except (KubeError, OSError, Problem) as error:  # a full disk, or one that is read-only
        otherwise()
        say(line_for(error, options=options), is_error=True)
        code = FAILED
    except (KeyboardInterrupt, asyncio.CancelledError):
        code = 128 + ended_by
    raise typer.Exit(code)


async def once_answered(ask: Callable[[], Awaitable[R]]) -> R:
    """Return an answer of the control plane, once it gives one: what waits for hours outlives an interruption."""
    while True:
        try:
            return await ask()
        except INTERRUPTIONS as error:
            say(f"not answered, and asked again: {error}")
            await asyncio.sleep(RETRY_SECONDS)


async def each_of(items: Iterable[T], do: Callable[[T], Awaitable[R]], *, at_once: int = 20) -> list[R]:
    """Do something with each item, some at a time; return what comes of it, in the order of the items."""
    places = asyncio.Semaphore(at_once)

    async def one(item: T) -> R:
        async with places:
            return await do(item)

    return list(await asyncio.gather(*map(one, items)))
