"""The steps of the demo: from two empty clusters to a user's change in force, each verified in the clusters."""

import asyncio
import platform
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version
from typing import Any

from kube_runtime import Resource
from kyma_demo import measure, names
from kyma_demo.environment import create_kyma, infrastructure
from kyma_demo.module_cr import NETWORK, kubectl_get, network_of, ready_of, with_network
from kyma_demo.object_watcher import CONFIG_MAPS
from kyma_demo.output import TerminalOutput
from kyma_demo.programs import Programs
from kyma_demo.report import DemoReport, DemoStep, NotVerified
from kyma_demo.timeline import STATIONS, Station, follow
from kyma_demo.user import IN_FORCE_SECONDS, INFRASTRUCTURES, DemoUser, capacity_of, maybe_get
from kyma_local.waiting import eventually
from lifecycle_manager.contract.resources import KYMAS, MODULE_CONFIGS, SYNC_RESOURCES
from lifecycle_manager_api import ModuleConfig
from lifecycle_manager_api import names as api_names

TIMEOUT_SECONDS = 120.0
FOLLOWED_SECONDS = 20.0
PERSISTENT_VOLUMES: Resource[dict[str, Any]] = Resource.dynamic(
    "", "v1", "PersistentVolume", "persistentvolumes", namespaced=False
)
NETWORK_POLICIES: Resource[dict[str, Any]] = Resource.dynamic(
    "networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", namespaced=True
)
OWNED = "cloud-resources.kyma-project.io/infrastructure"


NamedStep = tuple[str, Callable[[], Awaitable[str]]]


@dataclass(eq=False)
class Walkthrough(DemoUser):
    """Runs the steps, shows them, and keeps the report."""

    programs: Programs
    output: TerminalOutput = field(default_factory=TerminalOutput)
    changes: int = 50
    report: DemoReport = field(default_factory=DemoReport)

    async def run(self) -> DemoReport:
        """Run all steps; stop at the first that fails. Exceptions of steps go into the report."""
        self.report.versions = {
            "kubernetes": await self.environment.kcp.server_version(),
            "lifecycle-manager": version("kyma-lifecycle-manager"),
            "python": platform.python_version(),
        }
        async with asyncio.TaskGroup() as tasks:
            watching = [tasks.create_task(self.object_watcher.run())]
            if await self._steps(self._setup_steps()):
                watching.append(tasks.create_task(self.module_cr_watcher.run()))
                await self._steps(self._change_steps())
            for task in watching:
                task.cancel()
        return self.report

    async def set_up(self, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        """Run the steps up to the user's first change. Raises the exceptions of the steps."""
        for _, run in self._setup_steps():
            async with asyncio.timeout(timeout_seconds):
                await run()

    def _setup_steps(self) -> tuple[NamedStep, ...]:
        return (
            ("prepare the control plane: CRDs, roles, the module's catalog entry", self._prepare_kcp),
            ("prepare the user cluster: the module's CRD, LM's role", self._prepare_skr),
            ("start Lifecycle Manager and Module Manager, each with its own rights", self._start),
            ("create the Kyma in KCP: LM creates the Kyma CR in the SKR", self._create_kyma),
            ("LM installs the Watcher and its webhook", self._install_watcher),
            ("the user enables the module in the SKR", self._enable_module),
        )

    def _change_steps(self) -> tuple[NamedStep, ...]:
        return (
            ("the user creates an Infrastructure: its objects appear in the SKR", self._create),
            ("the user changes it: its objects are updated, removed ones are pruned", self._change),
            ("the user makes a mistake, reads in their cluster why, and corrects it", self._mistake),
            (f"the user changes it {self.changes} more times", self._measure),
            ("a second Infrastructure is created, changed and deleted", self._second_infrastructure),
        )

    async def _steps(self, steps: Iterable[NamedStep]) -> bool:
        for name, run in steps:
            if not await self._step(name, run):
                return False
        return True

    async def _step(self, name: str, run: Callable[[], Awaitable[str]]) -> bool:
        self.output.step_started(name)
        started = time.perf_counter()
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS + self.changes):  # one of the steps makes these changes
                detail, verified = await run(), True
        except (Exception, TimeoutError) as error:  # noqa: BLE001 - goes into the report
            detail, verified = f"{type(error).__name__}: {error}{await self.programs.ended()}", False
        step = DemoStep(name, (time.perf_counter() - started) * 1000, verified, detail)
        self.report.steps.append(step)
        self.output.step_finished(step)
        return verified

    async def _prepare_kcp(self) -> str:
        await self.programs.prepare()
        await self.environment.kcp.list(KYMAS, names.KCP_NAMESPACE)
        await self.environment.kcp.list(MODULE_CONFIGS, names.KCP_NAMESPACE)
        await self.environment.kcp.list(SYNC_RESOURCES, names.KCP_NAMESPACE)
        return ""

    async def _prepare_skr(self) -> str:
        await self.programs.prepare_user_cluster()
        await self.environment.skr.list(INFRASTRUCTURES, names.SCRATCH_NAMESPACE)
        return ""

    async def _start(self) -> str:
        await self.programs.start_control_plane()
        return f"logs: {self.environment.logs}"

    async def _create_kyma(self) -> str:
        await create_kyma(self.environment, self.programs.skr_access)
        kyma = await eventually(
            lambda: maybe_get(self.environment.skr, KYMAS, api_names.DEFAULT_KYMA_NAME, names.SKR_NAMESPACE)
        )
        return f"Kyma {names.SKR_NAMESPACE}/{kyma.metadata.name}, channel {kyma.spec.channel}"

    async def _install_watcher(self) -> str:
        if self.environment.skr_routes is None:
            return "this cluster cannot reach a Watcher on this machine: LM polls every second"
        await self.programs.start_watcher()
        webhooks = await self.environment.skr.mapper.resource(
            "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"
        )
        found = await eventually(lambda: maybe_get(self.environment.skr, webhooks, "skr-webhook", None))
        return f"ValidatingWebhookConfiguration {found['metadata']['name']}, called for the Kyma CR"

    async def _enable_module(self) -> str:
        # Not a merge patch: an existing cluster may have other modules, and keeps them.
        enabled_module = {"spec": {"modules": [{"name": names.MODULE, "managed": True}]}}
        await self.environment.skr.apply(
            KYMAS, api_names.DEFAULT_KYMA_NAME, enabled_module, api_names.SKR_NAMESPACE, field_manager=names.USER
        )
        webhooks = await self.environment.skr.mapper.resource(
            "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"
        )

        async def enabled() -> str | None:
            kyma = await self.environment.kcp.get(KYMAS, names.KYMA, names.KCP_NAMESPACE)
            found = await maybe_get(self.environment.skr, webhooks, "skr-webhook", None)
            watched = self.environment.skr_routes is None or (
                found
                and any("infrastructures" in rule["resources"] for hook in found["webhooks"] for rule in hook["rules"])
            )
            module = next((module for module in kyma.status.modules if module.name == names.MODULE), None)
            return module.version if module is not None and watched else None

        detail = f"{names.MODULE} {await eventually(enabled)} is resolved in KCP, its Module CRs are watched"
        return f"{detail}{await self._delete_leftovers()}"

    async def _delete_leftovers(self) -> str:
        """Delete the Infrastructures of an earlier run, and wait until their objects are deleted."""
        left = (await self.environment.skr.list(INFRASTRUCTURES, names.SKR_NAMESPACE)).items
        for each in left:
            await self.environment.skr.delete(INFRASTRUCTURES, each["metadata"]["name"], names.SKR_NAMESPACE)

        owners = {each["metadata"]["name"] for each in left}

        async def gone() -> bool:
            ours = f"{api_names.KYMA_NAME}={names.KYMA}"
            configs = (await self.environment.kcp.list(MODULE_CONFIGS, names.KCP_NAMESPACE, label_selector=ours)).items
            if any(config.spec.resource_ref and config.spec.resource_ref.name in owners for config in configs):
                return False
            return all([await self._objects(owner, config_maps=0, volumes=0, policies=0) for owner in owners])

        if not left:
            return ""
        await eventually(gone)
        return f"; {len(left)} Infrastructure of an earlier run deleted"

    async def _create(self) -> str:
        await self.object_watcher.ready(IN_FORCE_SECONDS)
        await self.module_cr_watcher.ready(IN_FORCE_SECONDS)
        wanted = infrastructure(names.INFRASTRUCTURE, {"media": "100Gi", "scans": "50Gi"}, {"billing": NETWORK})
        await self._user_writes("media", "100Gi", lambda: self._create_infrastructure(wanted))
        objects = await eventually(lambda: self._objects(names.INFRASTRUCTURE, config_maps=2, volumes=2, policies=1))
        config = await self._module_config(names.INFRASTRUCTURE)
        sync = await self.environment.kcp.get(SYNC_RESOURCES, config.metadata.name, names.KCP_NAMESPACE)
        return f"ModuleConfig and SyncResource {sync.metadata.name}; in the SKR: {objects}"

    async def _change(self) -> str:
        started, seen = await self._see_change("200Gi")
        objects = await eventually(lambda: self._objects(names.INFRASTRUCTURE, config_maps=1, volumes=1, policies=1))
        detail = f"in force after {seen[1].ms:.0f} ms; in the SKR: {objects}"
        if self.environment.skr_routes is not None:
            await self._show_timeline(started, seen)
        return detail

    async def _show_timeline(self, started: datetime, seen: tuple[Station, ...]) -> None:
        """Show the timeline of the change, or of another one if a read in progress found the first before its event."""
        for next_capacity in ("210Gi", "220Gi", None):
            config = await self._module_config(names.INFRASTRUCTURE)
            trace = config.metadata.annotations.get(api_names.TRACEPARENT, "")
            if followed := await self._followed(trace, started) if trace else ():
                *others, status = seen
                self.report.timeline = (*sorted((*others, *followed), key=lambda station: station.ms), status)
                self.output.show_timeline(self.report.timeline)
                return
            if next_capacity is not None:
                started, seen = await self._see_change(next_capacity)

    async def _see_change(self, capacity: str) -> tuple[datetime, tuple[Station, ...]]:
        """Change the volume as the user; return when, and what the user sees of it."""
        started = time.perf_counter()
        ready = asyncio.ensure_future(
            self._shown(lambda it: it["spec"]["nfsVolumes"][0]["capacity"] == capacity and ready_of(it)[0])
        )
        try:
            wall, milliseconds = await self._change_media(capacity)
            shown = await ready
        finally:
            ready.cancel()
        return wall, (
            Station("user", "writes the Module CR", 0.0),
            Station("user", "sees the object changed in the SKR", milliseconds),
            Station("user", "sees Ready in the Module CR's status", (shown - started) * 1000),
        )

    async def _mistake(self) -> str:
        """Write a network that the Module Manager refuses, and correct it."""
        name = names.INFRASTRUCTURE
        started = time.perf_counter()
        await self._patch_infrastructure(name, with_network("0.0.0.0/0"))
        refused = await self._shown(lambda it: network_of(it) == "0.0.0.0/0" and ready_of(it)[1] == "NetworkTooWide")
        printed = await kubectl_get(self.environment.skr, INFRASTRUCTURES, name, names.SKR_NAMESPACE)
        _, _, message = ready_of(await self.environment.skr.get(INFRASTRUCTURES, name, names.SKR_NAMESPACE))
        corrected = time.perf_counter()
        await self._patch_infrastructure(name, with_network(NETWORK))
        ready = await self._shown(lambda it: network_of(it) == NETWORK and ready_of(it)[0])
        return (
            f"after {(refused - started) * 1000:.0f} ms kubectl get infrastructure {name} shows\n{printed}\n"
            f"with the message: {message}\n"
            f"Ready {(ready - corrected) * 1000:.0f} ms after the correction"
        )

    async def _shown(self, expectation: Callable[[dict[str, Any]], bool]) -> float:
        """Return when the Infrastructure first was as expected."""
        return await self.module_cr_watcher.wait_for(
            names.INFRASTRUCTURE, lambda it: it is not None and expectation(it), within=IN_FORCE_SECONDS
        )

    async def _followed(self, trace: str, started: datetime) -> tuple[Station, ...]:
        """Return the stations of a change when the logs have all of them; none after a timeout."""
        try:
            async with asyncio.timeout(FOLLOWED_SECONDS):
                return await eventually(lambda: self._whole(trace, started))
        except TimeoutError:
            return ()

    async def _whole(self, trace: str, started: datetime) -> tuple[Station, ...] | None:
        await self.programs.collect_logs()
        stations = follow(trace, self.environment.logs, started)
        return stations if len(stations) == len(STATIONS) else None

    async def _measure(self) -> str:
        config = await self._module_config(names.INFRASTRUCTURE)
        sync = await self.environment.kcp.get(SYNC_RESOURCES, config.metadata.name, names.KCP_NAMESPACE)
        async with measure.floor_of(self.environment, INFRASTRUCTURES, config, sync) as once:
            change, status, floor = await measure.changes(self.changes, self._see_change, once)
        self.report.change, self.report.status, self.report.floor = change, status, floor
        return (
            f"median {change.median:.0f} ms, p99 {change.p99:.0f} ms; "
            f"Ready in the status after {status.median:.0f} and {status.p99:.0f} ms; "
            f"the same API calls back to back: {floor.median:.0f} and {floor.p99:.0f} ms"
        )

    async def _change_media(self, capacity: str) -> tuple[datetime, float]:
        return await self._user_writes("media", capacity, lambda: self.patch_volume(capacity))

    async def _second_infrastructure(self) -> str:
        name = "second"
        await self.create_second("logs", "10Gi")
        await self._patch_infrastructure(name, {"spec": infrastructure(name, {"logs": "20Gi"}, {})["spec"]})
        await self.object_watcher.wait_for(
            f"{name}-nfs-logs", lambda it: capacity_of(it) == "20Gi", within=IN_FORCE_SECONDS
        )
        config = await self._module_config(name)
        started = time.perf_counter()
        await self.environment.skr.delete(INFRASTRUCTURES, name, names.SKR_NAMESPACE)
        gone = await self.object_watcher.wait_for(f"{name}-nfs-logs", lambda it: it is None, within=IN_FORCE_SECONDS)

        async def all_deleted() -> bool:
            return (
                await maybe_get(self.environment.kcp, MODULE_CONFIGS, config.metadata.name, names.KCP_NAMESPACE) is None
                and await maybe_get(self.environment.kcp, SYNC_RESOURCES, config.metadata.name, names.KCP_NAMESPACE)
                is None
                and await self._objects(name, config_maps=0, volumes=0, policies=0) is not None
            )

        await eventually(all_deleted)
        return f"its objects are deleted after {(gone - started) * 1000:.0f} ms, then SyncResource and ModuleConfig"

    async def _module_config(self, infrastructure_name: str) -> ModuleConfig:
        listed = await self.environment.kcp.list(MODULE_CONFIGS, names.KCP_NAMESPACE)
        for config in listed.items:
            if config.spec.resource_ref is not None and config.spec.resource_ref.name == infrastructure_name:
                return config
        raise NotVerified(f"no ModuleConfig in KCP for Infrastructure {infrastructure_name}")

    async def _objects(self, owner: str, *, config_maps: int, volumes: int, policies: int) -> str | None:
        """Return the objects of an Infrastructure in the SKR; None unless the numbers are as expected."""
        selector = f"{OWNED}={owner}"
        skr, namespace = self.environment.skr, names.SKR_NAMESPACE
        found = (
            len((await skr.list(CONFIG_MAPS, namespace, label_selector=selector)).items),
            len((await skr.list(PERSISTENT_VOLUMES, None, label_selector=selector)).items),
            len((await skr.list(NETWORK_POLICIES, namespace, label_selector=selector)).items),
        )
        if found != (config_maps, volumes, policies):
            return None
        return ", ".join(
            (
                _counted(config_maps, "ConfigMap"),
                _counted(volumes, "PersistentVolume"),
                _counted(policies, "NetworkPolicy", "NetworkPolicies"),
            )
        )


def _counted(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
