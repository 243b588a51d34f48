"""Starts the programs with other options, as additional replicas, and reads their metrics."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import httpx

from kyma_demo import processes
from kyma_demo.programs import Programs
from kyma_local.ports import free_port
from kyma_local.processes import ChildProcess
from tests.serving import WITHOUT_TLS
from tests.waiting import eventually

MANAGER = "lifecycle-manager"
METRICS = "--metrics-bind-address=127.0.0.1:"


def with_options(program: processes.Program, *options: str, name: str = "", **environment: str) -> processes.Program:
    """Return a program with other or additional options and environment variables."""
    given = {option.partition("=")[0] for option in options}
    kept = (each for each in program.command if each.partition("=")[0] not in given)
    return replace(
        program,
        name=name or program.name,
        command=(*kept, *options),
        environment={**program.environment, **environment},
    )


class MeasuredPrograms(Programs):
    """The programs of the demo, with a Lifecycle Manager whose metrics have a port that stays at each start."""

    async def start(self, program: processes.Program) -> None:
        if program.name == MANAGER and metrics_port_of(program) == 0:
            program = with_options(program, f"{METRICS}{free_port()}")
        await super().start(program)

    @property
    def manager(self) -> "Manager":
        return Manager(self.running[MANAGER], metrics_port_of(self.started[MANAGER]))


def metrics_port_of(program: processes.Program) -> int:
    """Return the port of a program's metrics, 0 where it takes any."""
    (option,) = (each for each in program.command if each.startswith(METRICS))
    return int(option.removeprefix(METRICS))


@dataclass(frozen=True, eq=False)
class Manager:
    process: ChildProcess
    metrics_port: int

    async def metrics(self) -> dict[str, float]:
        """Return the samples, by name and labels."""
        async with httpx.AsyncClient(verify=WITHOUT_TLS, trust_env=False, timeout=60) as client:
            answer = await client.get(f"http://127.0.0.1:{self.metrics_port}/metrics")
        lines = [line.rpartition(" ") for line in answer.text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in lines}

    async def sample(self, text: str) -> float | None:
        """Return the first sample whose name and labels have a prefix."""
        return next((value for name, value in (await self.metrics()).items() if name.startswith(text)), None)


async def start_manager(programs: Programs, *options: str, name: str = MANAGER, **environment: str) -> Manager:
    """Start the Lifecycle Manager with additional options in place of the one of that name; wait until it is ready."""
    port = (name == MANAGER and metrics_port_of(programs.started[MANAGER])) or free_port()
    log = programs.environment.logs / f"{name}.log"
    earlier = log.read_text(errors="replace").count('"msg":"ready"') if log.exists() else 0
    address = f"127.0.0.1:{free_port()}"
    program = with_options(
        programs.started[MANAGER],
        f"{METRICS}{port}",
        *(() if name == MANAGER else ("--ui-bind-address=",)),
        f"--replica-name={name}",
        f"--replica-bind-address={address}",
        f"--replica-address={address}",
        *options,
        name=name,
        **environment,
    )
    original = programs.started[MANAGER]
    await programs.start(program)
    programs.started[MANAGER] = original
    process = programs.running[name]

    async def ready() -> bool:
        assert process.returncode is None, log.read_text(errors="replace")[-3000:]
        return log.read_text(errors="replace").count('"msg":"ready"') > earlier

    await eventually(ready, within=120, what=f"the line `ready` in {log}")
    return Manager(process, port)


@asynccontextmanager
async def without(programs: Programs, name: str, *, killed: bool = False) -> AsyncGenerator[None, None]:
    """Stop or kill a program, and start it again when the block ends, whatever becomes of it."""
    await (programs.kill(name) if killed else programs.stop(name))
    try:
        yield
    finally:
        await programs.restart(name)


@asynccontextmanager
async def manager_with(programs: Programs, *options: str, **environment: str) -> AsyncGenerator[Manager, None]:
    """Run the Lifecycle Manager with other options until the block ends."""
    manager = await start_manager(programs, *options, **environment)
    try:
        yield manager
    finally:
        await start_manager(programs)
