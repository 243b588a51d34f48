"""Runs a manager: a `kube_runtime.Manager` with one controller, and the port for probes and metrics.

The process keeps only a cache of the control plane, so it can be stopped at any time and started anywhere.
"""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

import structlog

from kube_runtime import ALONE, Client, KubeError, Manager, ManagerOptions, ObjectKey, Sharding
from kube_runtime.leases.lease import LeaseTiming
from kube_runtime.leases.lease_sharding import LeaseSharding
from kube_runtime.tracing import Tracer
from kyma_diagnostics.debug_server import debug_socket
from kyma_module_manager.controller import LEADER, setup
from kyma_module_manager.declaration import ModuleManager
from kyma_module_manager.exceptions import ControlPlaneUnreadable, PermanentError
from kyma_module_manager.metrics import ManagerMetrics
from kyma_module_manager.reconciler import RESYNC_SECONDS, KeyState, Reconciler
from kyma_module_manager.rights import lease_namespace_of
from kyma_module_manager.writer import MODULE_CONFIGS, SYNC_RESOURCES, ClusterWriter, PrintingWriter
from lifecycle_manager_api import names

T = TypeVar("T")
log = structlog.get_logger("module_manager")


@dataclass(frozen=True)
class ServiceOptions:
    """How a manager runs. An empty health host means all interfaces, port 0 any free port.

    `identity` is the name of this replica in its Lease. Pods in the network of their node all have its host name, so
    it should be the name of the Pod. The Leases are in `lease_namespace`, by default one that only this module has.
    """

    namespace: str = names.KCP_NAMESPACE
    health_host: str = ""
    health_port: int = 8080
    concurrency: int = 10
    resync_seconds: float = RESYNC_SECONDS
    sync_timeout_seconds: float = 60.0
    grace_seconds: float = 20.0
    dry_run: bool = False
    leader_elect: bool = False
    lease_namespace: str = ""
    identity: str = field(default_factory=socket.gethostname)
    lease: LeaseTiming = field(default_factory=LeaseTiming)
    debug_socket: Path | None = None


class ManagerService(Generic[T]):
    """Runs one manager against one control plane, until it is stopped or once for all ModuleConfigs."""

    def __init__(
        self,
        manager: ModuleManager[T],
        client: Client,
        options: ServiceOptions = ServiceOptions(),
        *,
        metrics: ManagerMetrics | None = None,
        tracer: Tracer | None = None,
        echo: Callable[[str], None] = print,
    ) -> None:
        metrics = metrics or ManagerMetrics(manager.module)
        name = f"module-manager-{manager.module}"
        selector = f"{names.MODULE_NAME}={manager.module}"
        self._module = manager.module
        self._options = options
        self._sharding = _leader_election(client, manager.module, name, options) if options.leader_elect else ALONE
        self._runtime = Manager(
            client,
            ManagerOptions(
                name=name,
                probes=[(options.health_host, options.health_port)],
                sync_timeout_seconds=None,
                grace_seconds=options.grace_seconds,
                trace_annotation=names.TRACEPARENT,
            ),
            namespace=options.namespace,
            sharding=self._sharding,
            metrics=metrics.runtime,
            registry=metrics.registry,
            tracer=tracer,
        )
        self._configs = self._runtime.informer(MODULE_CONFIGS, label_selector=selector)
        self._sync_resources = self._runtime.informer(SYNC_RESOURCES, label_selector=selector)
        writer = PrintingWriter(echo) if options.dry_run else ClusterWriter(self._runtime.client, name)
        self._end = writer.end if isinstance(writer, PrintingWriter) else None
        self._reconciler = Reconciler(
            manager,
            self._configs,
            self._sync_resources,
            writer,
            metrics,
            clock=self._runtime.clock,
            resync_seconds=options.resync_seconds,
        )
        setup(self._runtime, self._reconciler, name=name, concurrency=options.concurrency)
        self._runtime.before_start(self._log_start)

    @property
    def leads(self) -> bool:
        """Whether this replica reconciles; always true without leader election."""
        return self._sharding.owns(LEADER)

    async def run(self, stop: asyncio.Event) -> None:
        """Reconcile every change until `stop` is set, then finish the reconciles that are under way.

        It waits until the control plane can be read, however long that takes.
        """
        async with debug_socket(self._options.debug_socket, {"queues": self._runtime.queue_report}):
            await self._runtime.run(stop)

    async def run_once(self) -> tuple[str, ...]:
        """Reconcile all ModuleConfigs once, without leader election; return the names of those that failed.

        Raises ControlPlaneUnreadable if they cannot be listed in time.
        """
        problem: TimeoutError | None = None
        failed: tuple[str, ...] = ()
        async with self._runtime.background():
            try:
                for informer in (self._configs, self._sync_resources):
                    await informer.wait_synced(self._options.sync_timeout_seconds)
            except TimeoutError as error:
                problem = error
            else:
                reconciler = replace(self._reconciler, settle_seconds=0)
                keys = sorted(self._configs.cache.keys())
                failed = tuple([key.name for key in keys if await _fails(reconciler, key)])
                if self._end is not None:
                    self._end(len(keys))
        if problem is not None:
            cause = f": {problem.__cause__}" if problem.__cause__ else ""
            raise ControlPlaneUnreadable(f"{problem}{cause}")
        return failed

    async def _log_start(self) -> None:
        log.info(
            "watching",
            module=self._module,
            namespace=self._options.namespace,
            health_port=self._runtime.probe_ports[0],
        )


async def _fails(reconciler: Reconciler[T], key: ObjectKey) -> bool:
    try:
        attempt = await reconciler.attempt(key, KeyState())
    except KubeError:
        log.exception("reconcile failed", name=key.name)
        return True
    failure = attempt.failure
    if failure is not None and not isinstance(failure, PermanentError):  # the reconciler has logged those
        log.error("reconcile failed", name=key.name, reason=failure.reason, error=str(failure), exc_info=failure)
    return failure is not None


def _leader_election(client: Client, module: str, name: str, options: ServiceOptions) -> Sharding:
    namespace = options.lease_namespace or lease_namespace_of(module)
    return LeaseSharding(client, namespace=namespace, group=name, name=options.identity, timing=options.lease)
