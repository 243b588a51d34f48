"""The steps of the demo of rollouts, each verified in the clusters: a version for all, one that fails, the way back."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from kube_runtime import Client
from kyma_demo.report import DemoStep, NotVerified
from kyma_demo.rollout.fleet import CHANNEL, FAILING, FIRST, GOOD, MODULE, STRATEGY, SimulatedFleet
from kyma_demo.rollout.screen import RolloutScreen
from kyma_fleet.rollouts import latest_of, undoing
from kyma_local.waiting import eventually
from lifecycle_manager.contract.resources import KYMAS, MODULE_RELEASE_METAS, MODULE_ROLLOUTS
from lifecycle_manager_api import ModuleRollout, State, WaveStatus, as_document, names

STEP_SECONDS = 300.0
"""The deadline of a step; usually it takes some seconds."""
POLL_SECONDS = 0.1
FIELD_MANAGER = "klm-demo"


@dataclass(eq=False)
class RolloutStory:
    """Runs the steps, shows them, and keeps their results."""

    fleet: SimulatedFleet
    kcp: Client
    screen: RolloutScreen
    has_watchers: bool = True
    """Without Watchers, no Kyma is Ready."""
    steps: list[DemoStep] = field(default_factory=list)
    halted: ModuleRollout | None = None

    @property
    def verified(self) -> bool:
        """Whether every step was run and verified."""
        return len(self.steps) == len(self._steps) and all(each.verified for each in self.steps)

    @property
    def _steps(self) -> Sequence[tuple[str, Callable[[], Awaitable[str]]]]:
        clusters = len(self.fleet.clusters)
        return (
            (f"{MODULE} {FIRST} is installed in {clusters} simulated clusters", self._install),
            (f"version {GOOD} goes through the fleet in waves", self._roll_out),
            (f"version {FAILING} does not start everywhere: the rollout halts by itself", self._fail),
            (f"the way back, as by `klm rollout undo {MODULE}`: wave by wave in reverse", self._undo),
        )

    async def run(self) -> None:
        """Run all steps; stop at the first that fails. Raises KubeError."""
        for name, run in self._steps:
            self.screen.step_started(name)
            began, verified = time.monotonic(), True
            try:
                async with asyncio.timeout(STEP_SECONDS):
                    detail = await run()
            except (NotVerified, TimeoutError) as error:
                verified, detail = False, str(error) or f"not within {STEP_SECONDS:.0f} s"
            self.steps.append(DemoStep(name, (time.monotonic() - began) * 1000, verified, detail))
            self.screen.step_finished(self.steps[-1])
            if not verified:
                return

    async def _install(self) -> str:
        clusters = len(self.fleet.clusters)
        while (installed := self.fleet.versions()[FIRST]) < clusters:
            self.screen.show(
                [WaveStatus(name="fleet", clusters=clusters, healthy=installed, waiting=clusters - installed)]
            )
            await asyncio.sleep(POLL_SECONDS)
        await self._offer(FIRST)
        rollout = await self._followed(FIRST, until="Completed")
        await self._wait_until_all_are_ready()
        waves = ", ".join(f"{each.name} ({each.clusters})" for each in rollout.status.waves)
        return f"The RolloutStrategy {STRATEGY} has the waves {waves}."

    async def _roll_out(self) -> str:
        await self._offer(GOOD)
        rollout = await self._followed(GOOD, until="Completed")
        self._require_everywhere(GOOD)
        waves = rollout.status.waves
        for before, after in pairwise(waves):
            if not (before.completed_at and after.started_at and before.completed_at <= after.started_at):
                raise NotVerified(f"wave {after.name} began before wave {before.name} was completed")
        return f"All {len(self.fleet.clusters)} clusters run {GOOD}; each wave began when the one before was completed."

    async def _fail(self) -> str:
        await self._offer(FAILING)
        rollout = self.halted = await self._followed(FAILING, until="Halted")
        reached, clusters = self.fleet.versions()[FAILING], len(self.fleet.clusters)
        *_, last = rollout.status.waves
        if last.waiting != last.clusters or not rollout.status.failed_clusters:
            raise NotVerified(f"the rollout halted with {last.clusters - last.waiting} clusters of wave {last.name}")
        first = rollout.status.failed_clusters[0]
        return (
            f"{first.kyma} failed first: {first.message}. {reached} clusters have got {FAILING}, "
            f"{rollout.status.failed} of them failed; the other {clusters - reached} stay on {GOOD}."
        )

    async def _undo(self) -> str:
        if self.halted is None:
            raise NotVerified("there is no rollout to take back")
        back = undoing((self.halted,), self.halted, at_once=False)
        document = {key: value for key, value in as_document(back).items() if key != "status"}
        await self.kcp.create(MODULE_ROLLOUTS, document, names.KCP_NAMESPACE, field_manager=FIELD_MANAGER)
        await self._followed(GOOD, until="Completed")
        self._require_everywhere(GOOD)
        await self._wait_until_all_are_ready()
        return f"All {len(self.fleet.clusters)} clusters run {GOOD} and are ready."

    async def _wait_until_all_are_ready(self) -> None:
        if self.has_watchers:
            await eventually(self._are_all_ready, every=POLL_SECONDS)

    async def _are_all_ready(self) -> bool:
        kymas = (await self.kcp.list(KYMAS, names.KCP_NAMESPACE)).items
        return all(each.status.state == State.READY for each in kymas)

    async def _offer(self, version: str) -> None:
        """Point the channel at a version, as a module team does."""
        annotations = {names.ROLLOUT_STRATEGY: STRATEGY, names.ALLOW_DOWNGRADE: "true"}
        patch: dict[str, Any] = {
            "metadata": {"annotations": annotations},
            "spec": {"channels": [{"channel": CHANNEL, "version": version}]},
        }
        await self.kcp.merge_patch(
            MODULE_RELEASE_METAS, MODULE, patch, names.KCP_NAMESPACE, field_manager=FIELD_MANAGER
        )

    async def _followed(self, version: str, *, until: str) -> ModuleRollout:
        """Show the latest rollout, of this version, until it has a phase and no cluster is under way; return it."""
        while True:
            rollout = await self._latest()
            if rollout is not None and rollout.spec.version == version:
                self.screen.show(rollout.status.waves, rollout)
                phase = rollout.status.phase
                if phase == until and not any(each.under_way for each in rollout.status.waves):
                    return rollout
                if phase == "Halted" != until:
                    raise NotVerified(f"the rollout halted: {rollout.status.message}")
            await asyncio.sleep(POLL_SECONDS)

    async def _latest(self) -> ModuleRollout | None:
        found = latest_of((await self.kcp.list(MODULE_ROLLOUTS, names.KCP_NAMESPACE)).items)
        return found[0] if found else None

    def _require_everywhere(self, version: str) -> None:
        """Raises NotVerified."""
        found = self.fleet.versions()
        if found != {version: len(self.fleet.clusters)}:
            raise NotVerified(f"versions in the clusters: {dict(found)}")
