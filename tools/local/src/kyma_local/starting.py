"""Starts a server as a child process and waits until it is ready."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx

from kyma_local.processes import ChildProcess, start_child, tail
from kyma_local.waiting import eventually

START_SECONDS = 240.0  # for a busy machine; a server that ends is noticed at once
ATTEMPTS = 3
_TAKEN = "address already in use"


class StartFailed(Exception):
    """A program did not start; the message has the end of its log."""


class PortTaken(StartFailed):
    """A program did not start because its port is in use."""


async def start_server(
    name: str, command: list[str], log: Path, ready: Callable[[], Awaitable[bool]], *, within: float = START_SECONDS
) -> ChildProcess:
    """Start a program and wait until it is ready. Raises StartFailed and PortTaken after ending the program."""
    child = await start_child(name, command, log)

    async def ready_or_ended() -> bool:
        return child.returncode is not None or await ready()

    try:
        async with asyncio.timeout(within):
            await eventually(ready_or_ended, every=0.15)  # a question costs a server that starts some milliseconds
    except TimeoutError:
        await child.kill()
        raise _failure(child, f"was not ready within {within:g} s") from None
    except BaseException:
        await child.kill()
        raise
    if child.returncode is not None:
        raise has_ended(child)
    return child


async def start_on_free_ports(start: Callable[[], Awaitable[None]], choose: Callable[[], None]) -> None:
    """Start a program; where another has taken a port of it meanwhile, choose others. Raises StartFailed."""
    for _ in range(ATTEMPTS - 1):
        try:
            await start()
        except PortTaken:
            choose()
        else:
            return
    await start()


async def answers(client: httpx.AsyncClient, url: str) -> bool:
    """Return whether a URL answers with status 200."""
    try:
        return (await client.get(url, timeout=2)).status_code == 200
    except httpx.HTTPError:
        return False


def has_ended(child: ChildProcess) -> StartFailed:
    """Return the exception for a program that has ended by itself."""
    return _failure(child, f"ended with code {child.returncode}")


def _failure(child: ChildProcess, what: str) -> StartFailed:
    end = tail(child.log)
    kind = PortTaken if _TAKEN in end.lower() else StartFailed
    return kind(f"{child.name} {what}; the end of its log {child.log}:\n{end}")
