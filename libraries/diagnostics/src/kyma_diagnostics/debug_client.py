"""Asks a running program on its debug socket.

Another program may hold the path: an answer is bounded in size and time, and has no control characters.
"""

import os
import socket
import time
from pathlib import Path

COMMANDS = ("tasks", "stacks", "queues", "loop", "log-level")
SOCKET_VARIABLES = ("KLM_DEBUG_SOCKET", "MODULE_MANAGER_DEBUG_SOCKET", "DEBUG_SOCKET")
"""What the Lifecycle Manager, Module Managers and the Watcher read the path of their socket from."""
SECONDS = 30.0
MAX_ANSWER_BYTES = 1024 * 1024


class DebugFailed(Exception):
    """The program does not answer, or refuses; the text says why."""


def socket_of_environment() -> Path | None:
    """Return the socket of the program whose environment this is, as in its container."""
    return next((Path(path) for name in SOCKET_VARIABLES if (path := os.environ.get(name))), None)


def ask(path: Path | None, command: str) -> str:
    """Return the answer to a command. Raises DebugFailed."""
    if path is None:
        raise DebugFailed("no debug socket: give --socket, with the path that the program's option says")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(SECONDS)
            connection.connect(str(path))
            connection.sendall(f"{command}\n".encode())
            answer = _answer(connection, path)
    except OSError as error:
        raise DebugFailed(
            f"{path}: {error.strerror or error}; is the program running with this debug socket?"
        ) from None
    status, _, text = printable(answer.decode(errors="replace")).partition("\n")
    if status != "ok":
        raise DebugFailed(text.strip() or f"{path}: no answer")
    return text


def printable(text: str) -> str:
    """Return lines without control characters."""
    return "".join(each if each.isprintable() or each == "\n" else "?" for each in text)


def _answer(connection: socket.socket, path: Path) -> bytes:
    """Return all that is sent within a time, however it drips. Raises DebugFailed or OSError."""
    answer, deadline = bytearray(), time.monotonic() + SECONDS
    try:
        while (left := deadline - time.monotonic()) > 0:
            connection.settimeout(left)
            chunk = connection.recv(64 * 1024)
            if not chunk:
                return bytes(answer)
            answer += chunk
            if len(answer) > MAX_ANSWER_BYTES:
                raise DebugFailed(f"{path}: the answer is longer than {MAX_ANSWER_BYTES} bytes")
    except TimeoutError:
        pass
    raise DebugFailed(f"{path}: no whole answer within {SECONDS:g} s")
