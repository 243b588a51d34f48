"""Flame graphs of running programs by py-spy, and the CPU time of each package in them."""

import asyncio
import html
import re
import signal
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

RATE = 100
FRAME = re.compile(
    r"<title>(?P<title>[^<]*) \([\d,]+ samples?, [^<]*</title>"
    r'<rect x="[^"]*" y="(?P<y>\d+)"[^>]* fg:x="(?P<x>\d+)" fg:w="(?P<w>\d+)"/>'
)
FILE = re.compile(r"\(([^()]+?)(?::\d+)?\)$")
WAITING = frozenset({"selectors", "concurrent"})
"""Innermost frames of threads that wait for work: the metrics' server, idle workers. py-spy counts some as running."""
PTRACE = "attaching to a process needs root, or: sysctl kernel.yama.ptrace_scope=0"


class SamplingFailed(Exception):
    """py-spy has written no flame graph."""


@dataclass(slots=True)
class Recording:
    """A py-spy that samples one process until it ends or `stop` is called."""

    program: str
    path: Path
    process: asyncio.subprocess.Process

    async def stop(self) -> None:
        """Write the flame graph. Raises SamplingFailed with what py-spy printed."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGINT)
        printed, _ = await self.process.communicate()
        if not self.path.exists():
            raise SamplingFailed(f"{self.program}: {printed.decode().strip()}; {PTRACE}")


async def record(program: str, pid: int, folder: Path) -> Recording:
    """Sample a process while it uses a CPU; the flame graph is `<folder>/<program>.svg`."""
    path = folder / f"{program}.svg"
    path.unlink(missing_ok=True)
    command = [
        str(Path(sys.executable).with_name("py-spy")),
        "record",
        f"--pid={pid}",
        f"--output={path}",
        f"--rate={RATE}",
        "--duration=unlimited",
        "--nonblocking",  # a paused program would be slower than the ones that it waits for
    ]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    return Recording(program, path, process)


def shares_by_package(svg: str) -> dict[str, float]:
    """Return the share of the samples of each package whose frame was the innermost, the largest first.

    A C function belongs to the Python function that called it: JSON of msgspec, for instance, to its caller.
    """
    frames = [
        (int(found["y"]), int(found["x"]), int(found["w"]), _package(found["title"])) for found in FRAME.finditer(svg)
    ]
    if not frames:
        return {}
    levels = sorted({y for y, *_ in frames})
    below = {(y, x): w for y, x, w, _ in frames}
    own: Counter[str] = Counter()
    for y, x, w, package in frames:
        index = levels.index(y) + 1
        children = (
            sum(width for (level, at), width in below.items() if level == levels[index] and x <= at < x + w)
            if index < len(levels)
            else 0
        )
        own[package] += max(0, w - children)
    for waiting in WAITING:
        del own[waiting]
    total = sum(own.values())
    return {package: count / total for package, count in own.most_common() if count}


def _package(title: str) -> str:
    """Return the package of a frame `function (package/module.py:line)`. That of the loop is in C: uvloop, with TLS."""
    found = FILE.search(html.unescape(title))
    if found is None:
        return "other"
    if found[1] == "asyncio/runners.py":
        return "event loop, sockets and TLS (uvloop)"
    return "imports" if found[1].startswith("<frozen importlib") else found[1].partition("/")[0].removesuffix(".py")
