"""One run of a workload with one fault: lives of the process, the script beside it, and the wait for silence.

Silence is counted in rounds of reconciles, so that a slow machine is waited for: a key that is reconciled at all has to
be reconciled so and so often without any write in between, and one that pauses once, after its pause. Where nothing is
left to be reconciled, time has to do. It is counted in small steps, of which one that took long counts little: what a
controller leaves undone while the machine stands still is not left undone.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from kube_runtime.client.client import Client
from kube_runtime.client.kubeconfig import KubeconfigPolicy
from kube_runtime.client.options import ClientOptions
from kube_runtime.controller.workers import Result
from kube_runtime.exceptions import KubeError
from kube_simulation.cluster import SimulatedCluster
from kube_simulation.requests import Answer, ApiRequest
from kube_simulation.rules import Freeze, Proceed, Rule
from kube_simulation.server import Simulation
from tests.faults.faults import AGENT, Fault
from tests.faults.oracle import Outcome, outcome_of
from tests.faults.stepping import ReconcileCut, Stepped
from tests.faults.workload import Process, Users, Workload

__all__ = ["Run"]

ROUNDS_BETWEEN_STEPS = 2
ROUNDS_AT_THE_END = 10
_WITHOUT_AN_ANSWER = 1.0
_FOR_A_START = 5.0
_MAX_STEP_SECONDS = 0.1
_LONGEST_PAUSE = 10.0
"""What a controller does after a longer pause is not waited for: its interval may be hours."""
_POLICY = KubeconfigPolicy(allow_insecure=True)


class _NeverAtRest(Exception):
    """There is no point in going on with the script."""


class _OwnWrites(Rule):
    """Counts the writes that the process sends."""

    def __init__(self) -> None:
        self.sent = 0
        self.last = ""

    async def around(self, request: ApiRequest, proceed: Proceed) -> Answer:
        if request.is_write and request.user_agent.startswith(AGENT):
            self.sent += 1
            self.last = f"{request.verb} {request.path}"
        return await proceed()


@dataclass(eq=False)
class _Past(Freeze):
    """Shows the process a cluster as it was, and tells whether the process has read it."""

    was_read: bool = field(default=False, init=False)

    def horizon(self, request: ApiRequest) -> int | None:
        if not request.user_agent.startswith(AGENT):
            return None
        self.was_read = True
        return self.version


class Run:
    """One run. `name` makes its clusters its own; it settles within `timeout_seconds`, or that is a complaint."""

    def __init__(
        self, simulation: Simulation, workload: Workload, fault: Fault, name: str, timeout_seconds: float
    ) -> None:
        self._workload = workload
        self._fault = fault
        self._timeout_seconds = timeout_seconds
        self._clusters = {each: simulation.cluster(f"{name}-{each}") for each in workload.clusters}
        self._names = {cluster.name: each for each, cluster in self._clusters.items()}
        self._simulation = simulation
        self._writes = _OwnWrites()
        self._rounds: Counter[object] = Counter()
        self._last_round: dict[object, float] = {}
        self._paused_until: dict[object, float] = {}
        self._under_way = 0
        self._now = self._quiet_now = 0.0
        self._complaints: list[str] = []
        self._life: asyncio.Task[None] | None = None
        self._born = 0.0
        self._frozen = False
        self._rounds_of_life = 0
        self._killed = asyncio.Event()
        self._stale: tuple[str, int] | None = None

    async def outcome(self) -> Outcome:
        """Run to the end, and return what it came to."""
        fault = self._fault
        fault.run = self
        for cluster in self._clusters.values():
            cluster.create(*self._workload.initial_of(self._names[cluster.name]))
            cluster.add_rule(fault)
            cluster.add_rule(self._writes)
        try:
            with suppress(_NeverAtRest):
                await self._perform()
            return self._judged()
        finally:
            for cluster in self._clusters.values():
                self._simulation.remove(cluster.name)

    def kill(self, *, stale_before: tuple[str, int] | None = None) -> None:
        """End this life of the process. `stale_before`: the cluster and version that the next one sees at first."""
        self._stale = stale_before
        if self._life is not None:
            self._life.cancel()
        self._killed.set()

    def version_of(self, cluster: str) -> int:
        """Return the newest resource version of a cluster."""
        return self._simulation.cluster(cluster).version

    async def _perform(self) -> None:
        counting = asyncio.create_task(self._count_time())
        lives = asyncio.create_task(self._live_again_and_again())
        try:
            async with self._clients("user") as clients:
                await self._workload.script(Users(clients, self._settle_between_steps))
            for cluster in self._clusters.values():
                cluster.remove_rule(self._fault)
            await self._settle(ROUNDS_AT_THE_END, lambda: self._writes.sent)
        finally:
            lives.cancel()
            counting.cancel()
            with suppress(asyncio.CancelledError):
                await lives
            await asyncio.wait([counting])

    async def _count_time(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            await self._moment()
            took = clock() - began
            self._now += min(took, _MAX_STEP_SECONDS)
            self._quiet_now += min(took, 2 * self._moment_seconds)

    async def _live_again_and_again(self) -> None:
        while True:
            self._killed.clear()
            self._born, self._rounds_of_life = self._now, 0
            self._paused_until.clear()
            self._life = asyncio.create_task(self._live())
            thawing = asyncio.create_task(self._thaw_after_a_round())
            try:
                await asyncio.wait([self._life])
            finally:
                for task in (self._life, thawing):
                    task.cancel()
                await asyncio.wait([self._life, thawing])
            if not self._killed.is_set():
                self._complain_of_the_end(self._life)
                return

    async def _live(self) -> None:
        async with self._clients(AGENT) as clients:
            await self._workload.process(Process(clients, self._workload.resync_seconds, self._observe))

    async def _thaw_after_a_round(self) -> None:
        """Have a process that starts on the past do a round in it: it gets the time for one once it watches.

        A cluster that it does not watch it reads within a round.
        """
        if self._stale is None:
            return
        (name, version), self._stale = self._stale, None
        began = self._rounds.total()
        past = _Past(version)
        cluster = self._simulation.cluster(name)

        def was_round() -> bool:
            return self._rounds.total() > began

        self._frozen = True
        try:
            with cluster.ruled_by(past):
                await self._until(lambda: cluster.open_watches > 0 or (past.was_read and was_round()), _FOR_A_START)
                await self._until(was_round, _WITHOUT_AN_ANSWER)
        finally:
            self._frozen = False
            self._born, self._rounds_of_life = self._now, 0  # only now it sees what there is

    async def _until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Wait for something that need not come."""
        deadline = self._now + seconds
        while not condition() and self._now < deadline:
            await self._moment()

    def _complain_of_the_end(self, life: "asyncio.Task[None]") -> None:
        error = None if life.cancelled() else life.exception()
        self._complaints.append(f"the process ended by itself: {error!r}")

    async def _observe(self, key: object, reconcile: Coroutine[Any, Any, Any]) -> Any:
        self._under_way += 1
        self._paused_until.pop(key, None)
        try:
            return self._noted(key, await Stepped(reconcile, self._fault.at_await))
        except Exception as error:
            self._paused_until[key] = self._quiet_now + _LONGEST_PAUSE  # it is retried, or waits for a trigger
            # What a cluster does to everybody, and what was done on purpose.
            if not isinstance(error, (*self._workload.foreseen, KubeError, ReconcileCut, TimeoutError)):
                self._complaints.append(f"the reconcile of {key} raised {error!r}")
            raise
        finally:
            self._under_way -= 1
            self._rounds[key] += 1
            self._rounds_of_life += 1
            self._last_round[key] = self._quiet_now

    def _noted(self, key: object, result: Any) -> Any:
        """Note until when a key pauses."""
        seconds = result.requeue_after if isinstance(result, Result) else None
        if seconds is not None and seconds <= _LONGEST_PAUSE:
            self._paused_until[key] = self._quiet_now + seconds
        return result

    async def _settle_between_steps(self) -> None:
        """Wait until nothing changes any more; what is tried in vain because of a fault may go on being tried."""
        await self._settle(ROUNDS_BETWEEN_STEPS, lambda: sum(each.version for each in self._clusters.values()))

    async def _settle(self, rounds: int, written: Callable[[], int]) -> None:
        """Wait until nothing is written any more. What never comes to that is a complaint."""
        deadline = self._now + self._timeout_seconds
        before = self._rounds.copy()
        await self._until(lambda: self._is_over() or self._watches(), _FOR_A_START)
        await self._until(lambda: self._is_over() or self._rounds != before, _WITHOUT_AN_ANSWER)
        while True:
            writes, since, start = written(), self._rounds.copy(), self._quiet_now
            while written() == writes and not self._is_silent(rounds, since, self._quiet_now - start):
                if self._now > deadline:
                    complaint = f"it did not come to rest within {self._timeout_seconds:g} s"
                    self._complaints.append(f"{complaint}; its last write: {self._writes.last or 'none'}")
                    raise _NeverAtRest
                await self._moment()
            if written() == writes:
                return

    def _is_silent(self, rounds: int, since: "Counter[object]", seconds: float) -> bool:
        enough_seconds = rounds * self._workload.resync_seconds
        if seconds < enough_seconds or self._under_way or self._is_starting():
            return False
        return all(self._is_at_rest(key, rounds, since[key], enough_seconds) for key in self._rounds)

    def _is_at_rest(self, key: object, rounds: int, since: int, enough_seconds: float) -> bool:
        """Tell whether a key was reconciled often enough without any write: also after its pause, unless it is gone."""
        was, now = self._rounds[key] - since, self._quiet_now
        is_paused = now < self._paused_until.get(key, 0.0)
        return was >= rounds or (now - self._last_round[key] >= enough_seconds and (was > 1 or not is_paused))

    def _is_starting(self) -> bool:
        """Tell whether the process has only been started, and has had no time yet to begin."""
        if self._is_over():
            return False
        if self._frozen or self._stale is not None or self._killed.is_set():  # a killed one takes a moment to end
            return True
        if self._rounds_of_life:
            return False
        age = self._now - self._born
        return age < (_WITHOUT_AN_ANSWER if self._watches() else _FOR_A_START)

    def _is_over(self) -> bool:
        """Tell whether the process has ended by itself."""
        return self._life is not None and self._life.done() and not self._killed.is_set()

    def _watches(self) -> bool:
        return any(each.open_watches for each in self._clusters.values())

    async def _moment(self) -> None:
        await asyncio.sleep(self._moment_seconds)

    @property
    def _moment_seconds(self) -> float:
        return self._workload.resync_seconds / 4

    def _judged(self) -> Outcome:
        outcome = Outcome(complaints=list(dict.fromkeys(self._complaints)))
        for name, cluster in self._clusters.items():
            part = outcome_of(name, cluster.changes(), cluster.objects(), self._workload.ignored)
            outcome.objects |= part.objects
            outcome.created += part.created
            outcome.deleted += part.deleted
        return outcome

    @asynccontextmanager
    async def _clients(self, agent: str) -> AsyncIterator[dict[str, Client]]:
        options = ClientOptions(qps=0, timeout_seconds=10.0, user_agent=f"{agent}/1")
        async with AsyncExitStack() as stack:
            yield {
                name: await stack.enter_async_context(await _connect(cluster, options))
                for name, cluster in self._clusters.items()
            }


async def _connect(cluster: SimulatedCluster, options: ClientOptions) -> Client:
    return await Client.from_kubeconfig(cluster.kubeconfig, options=options, policy=_POLICY)
