"""A reader of a start page: types its commands, writes its files, and leaves running what runs until Ctrl-C.

`make start-pages` has the reader begin as the pages do, with nothing but a fresh clone; else our programs are there.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from kyma_local.binaries import find_binaries
from kyma_local.kubectl import find_kubectl
from tests.e2e.test_demo import running_from

STEP = re.compile(r"^(?:## |\*\*)(\d)\. ")
FILE = re.compile(r"[Tt]he file `(\S+\.py)`")
SETS = ("alias ", "cd ", "export ")
"""What a command begins with that those after it need."""
UNTIL_CTRL_C = "# until Ctrl-C"
SAME_PROGRAM = 3
"""Words by which a command that runs until Ctrl-C is known: given again, it takes the place of the first."""
OTHER_TERMINAL, AFTER_THE_SAME = "n another terminal", "after the same"
SETUP, OF_CHECKOUT = "make setup", "export PATH=$PWD/.venv/bin:$PATH"
FRESH_CLONE = "KLM_TEST_FRESH_CLONE"
OF_DOWNLOADS = ("PIP_", "SSL_CERT", "HTTP", "http", "https_", "NO_PROXY", "no_proxy")
"""What a machine has in its environment to download packages, by the beginning of the names."""
START_SECONDS = 400
COMMAND_SECONDS = 200

Judges = Mapping[str, Callable[[], Awaitable[None]]]


@dataclass
class Step:
    """What a page has its reader type, and the Python of its files, in the order in which they come."""

    commands: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)


@contextmanager
def reader_of(command: str, place: Path) -> Iterator["Reader"]:
    """A reader who has started what runs until Ctrl-C. Its end is clean, and leaves nothing running."""
    reader = Reader.with_nothing_else(place)
    try:
        reader.prepare()
        reader.type(f"{command}    {UNTIL_CTRL_C}")
        yield reader
    finally:
        reader.close()
    assert running_from(reader.folder) == []


def steps_of(page: Path) -> dict[str, Step]:
    """Return the steps of a page by their numbers, "" for what comes before the first."""
    steps, file, in_python = {"": Step()}, "", False
    current = steps[""]
    for line in page.read_text().splitlines():
        if line.startswith("```"):
            in_python = line == "```python"
        elif in_python:
            current.files[file] = f"{current.files.get(file, '')}{line}\n"
        elif line.startswith("    "):
            current.commands.append(line.strip())
        elif heading := STEP.match(line):
            current = steps.setdefault(heading[1], Step())
        if OTHER_TERMINAL in line and AFTER_THE_SAME not in line:
            current.commands.append(OTHER_TERMINAL)
        file = named[1] if (named := FILE.search(line)) and not in_python else file
    return steps


@dataclass(frozen=True)
class Reader:
    """A reader with terminals in a folder; `sets` are the commands that each terminal needs first.

    What is `shared` runs already, for several readers.
    """

    folder: Path
    environment: dict[str, str]
    shared: frozenset[str] = frozenset()
    sets: list[str] = field(default_factory=list)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @classmethod
    def with_nothing_else(cls, place: Path) -> "Reader":
        """Return a reader with an empty home, kubectl, and an empty folder and our programs, or a fresh clone."""
        programs, folder, is_fresh = place / "bin", place / "folder", FRESH_CLONE in os.environ
        programs.mkdir(parents=True)
        if is_fresh:
            subprocess.run(["git", "clone", "--quiet", Path.cwd(), folder], check=True)
        else:
            folder.mkdir()
        (programs / "kubectl").symlink_to(find_kubectl())
        path = (*(() if is_fresh else (Path(sys.executable).parent,)), programs, "/usr/bin", "/bin")
        environment = {
            "HOME": str(place / "home"),
            "PATH": os.pathsep.join(map(str, path)),
            "KUBEBUILDER_ASSETS": str(find_binaries().folder),
            **{name: value for name, value in os.environ.items() if is_fresh and name.startswith(OF_DOWNLOADS)},
        }
        return cls(folder, environment)

    def prepare(self) -> None:
        """Do what each page begins with."""
        self.type(f"{SETUP} && {OF_CHECKOUT}")

    async def follow(self, page: Path, judges: Judges) -> None:
        """Do what a page says, and judge after each step."""
        steps = steps_of(page)
        assert {*steps} - {""} == {*judges}, "each step has its judge"
        for number, step in steps.items():
            for name, code in step.files.items():
                with (self.folder / name).open("a") as file:
                    file.write(f"\n\n{code}")
            for command in step.commands:
                await asyncio.to_thread(self.type, command)
            if number:
                await judges[number]()

    def type(self, command: str) -> None:
        """Run a command of a page; its exit code is the one that the page says, 0 where it says none."""
        if command.startswith(f"{SETUP} && "):
            if FRESH_CLONE in os.environ:  # else it is done
                self.type(SETUP)
            self.type(command.removeprefix(f"{SETUP} && "))
        elif command == OTHER_TERMINAL:
            self.sets.clear()
        elif command.startswith(SETS):
            self.sets.append(command)
        elif command.endswith(UNTIL_CTRL_C):
            self._start(command.removesuffix(UNTIL_CTRL_C).strip())
        else:
            expected = int(found[1]) if (found := re.search(r"# exit code (\d)", command)) else 0
            done = subprocess.run(
                ["bash", "-c", self._script(command)],
                cwd=self.folder,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=COMMAND_SECONDS,
                check=False,
            )
            assert done.returncode == expected, f"{command}\n{done.stdout}\n{done.stderr}\n{self._logs()}"

    def another(self) -> "Reader":
        """Return another reader in the same folder, for whom runs what this one has started."""
        return replace(self, shared=frozenset(self.running), sets=[], running={})

    def close(self) -> None:
        """Press Ctrl-C where something runs, the last first. Each ends cleanly."""
        for name in reversed([*self.running]):
            self._stop(name)

    def _start(self, command: str) -> None:
        name = " ".join(command.split()[:SAME_PROGRAM])
        if name in self.shared:
            return
        if name in self.running:
            self._stop(name)
        with self._log(name).open("wb") as log:
            self.running[name] = subprocess.Popen(
                ["bash", "-c", self._script(f"exec env {command}")],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        if name.startswith("klm "):  # it says when it is ready; the others are waited for by the commands that follow
            self._wait_until_ready(name)

    def _wait_until_ready(self, name: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while "until Ctrl-C" not in self._log(name).read_text():
            assert self.running[name].poll() is None, self._logs()
            assert time.monotonic() < deadline, self._logs()
            with suppress(subprocess.TimeoutExpired):
                self.running[name].wait(timeout=0.1)

    def _stop(self, name: str) -> None:
        process = self.running.pop(name)
        try:
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all that run in it
            process.wait(timeout=COMMAND_SECONDS)
        finally:
            process.kill()
            process.wait()
        printed = self._log(name).read_text()
        assert process.returncode == 0, f"{name}\n{printed}"
        assert "Traceback" not in printed, f"{name}\n{printed}"

    def _script(self, command: str) -> str:
        return "\n".join(["shopt -s expand_aliases", *self.sets, command])

    def _log(self, name: str) -> Path:
        return self.folder.parent / f"{name.replace('/', '-')}.log"

    def _logs(self) -> str:
        return "\n".join(f"--- {name}\n{self._log(name).read_text()}" for name in self.running)
