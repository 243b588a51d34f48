"""Everything that the controllers of one process share, and the order in which it starts and stops.

A controller is declared in one place: what triggers it, its state, how it reconciles. The Manager owns the informers,
queues, metrics, Events, sharding, signals and probes. `run` starts informers and background tasks, waits for the
caches, runs `before_start`, and starts the controllers and the servers. At the end servers stop first, then the queues
are worked off, and only then other replicas may take over.

Signals are typed messages within the process for what no resource says. They are delivered synchronously, by type.
"""

import asyncio
import logging
import socket
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from types import EllipsisType
from typing import Any, TypeVar, cast

from prometheus_client import CollectorRegistry

from kube_runtime.client.client import Client
from kube_runtime.clock import SYSTEM_CLOCK, Clock
from kube_runtime.controller.controller import Controller
from kube_runtime.controller.options import ControllerOptions
from kube_runtime.controller.priority import Priority
from kube_runtime.controller.retries import DEFAULT_POLICY, RetryPolicy
from kube_runtime.controller.shared_limit import SharedLimit
from kube_runtime.controller.workers import Result
from kube_runtime.event_recorder import EventRecorder
from kube_runtime.health import LoopMonitor, ProbeServer
from kube_runtime.informer import Index, Informer
from kube_runtime.metrics import RuntimeMetrics
from kube_runtime.resource import Resource
from kube_runtime.sharding import ALONE, Sharding
from kube_runtime.tracing import Tracer, segment

K = TypeVar("K", bound=Hashable)
S = TypeVar("S")
T = TypeVar("T")
log = logging.getLogger(__name__)

OPTIONAL_SYNC_SECONDS = 5.0
"""How long the start waits for informers that are not required, once all others are synced."""
MAX_REPORTED = 20


def _owner_of(key: object) -> str:
    return getattr(key, "name", None) or str(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerOptions:
    """The options of a manager.

    - `name`: by which it records Events
    - `retry`: the pauses after failures, for controllers without a policy of their own
    - `probes`: the addresses at which /healthz, /readyz and /metrics are served
    - `sync_timeout_seconds`: how long the first lists may take, None for as long as it takes
    - `grace_seconds`: how long reconciles may take to end at the stop
    - `resync_seconds`: how often every watched object is enqueued without a change, never by default
    - `trace_annotation`: of an object, names its trace
    """

    name: str = "kube-runtime"
    retry: RetryPolicy = DEFAULT_POLICY
    probes: Sequence[tuple[str, int]] = ()
    sync_timeout_seconds: float | None = 120.0
    grace_seconds: float = 20.0
    resync_seconds: float | None = None
    trace_annotation: str = "traceparent"


DEFAULTS = ManagerOptions()


class Manager:
    """Owns what controllers share. Constructing it starts nothing; `run` does.

    - `namespace`: of informers that don't name one
    - `sharding`: which keys are this replica's. `client` becomes fenced by it
    - `registry`: where `metrics` are registered for /metrics; made where it is not given
    - `events`: records Events; by default under the name of the options
    - `on_result`: called with the name of the controller and the result of each reconcile
    - `tracer`: makes spans of reconciles that are part of a trace
    """

    def __init__(
        self,
        client: Client,
        options: ManagerOptions = DEFAULTS,
        *,
        namespace: str | None = None,
        clock: Clock = SYSTEM_CLOCK,
        sharding: Sharding = ALONE,
        metrics: RuntimeMetrics | None = None,
        registry: CollectorRegistry | None = None,
        events: EventRecorder | None = None,
        on_result: Callable[[str, Result | Exception], None] = lambda _name, _result: None,
        tracer: Tracer | None = None,
    ) -> None:
        self.tracer = tracer
        self.trace_annotation = options.trace_annotation
        self.client = client if sharding is ALONE else client.fenced_by(sharding.check)
        self.clock = clock
        self.sharding = sharding
        self.metrics = metrics or RuntimeMetrics()
        self.registry = registry or CollectorRegistry()
        self.registry.register(self.metrics)
        recorder = EventRecorder(client, controller=options.name, instance=socket.gethostname(), now=clock.now)
        self.events = events or recorder
        self.controllers: dict[str, Controller[Any, Any]] = {}
        self.probe_ports: tuple[int, ...] = ()
        self.unfenced = client
        """The client without the check of the sharding: for what a replica writes before it takes part."""
        self._options = options
        self.namespace = namespace
        self.on_result = on_result
        self.limit = SharedLimit()
        self._informers: dict[tuple[str, str | None, str | None, str | None], Informer[Any]] = {}
        self._required: set[Informer[Any]] = set()
        self._receivers: defaultdict[type[Any], list[Callable[[Any], int | None]]] = defaultdict(list)
        self._before_start: list[Callable[[], Awaitable[None]]] = []
        self._background: list[tuple[str, Callable[[], Awaitable[None]]]] = []
        self._servers: list[tuple[str, Callable[[], Awaitable[None]]]] = []
        self._checks: dict[str, Callable[[], bool | str]] = {
            "informers": self._synced,
            "controllers": lambda: self.working,
            "sharding": lambda: self.sharding.has_begun,
        }
        self.working = False
        """Whether the controllers take keys: from the start to the beginning of the stop."""

    def informer(
        self,
        resource: Resource[T],
        *,
        namespace: str | EllipsisType | None = ...,
        label_selector: str | None = None,
        field_selector: str | None = None,
        indexes: Iterable[Index[T]] = (),
        required: bool = True,
    ) -> Informer[T]:
        """Return the informer of a resource, made at the first call; a later call adds its indexes.

        The namespace is the Manager's unless one is given. Start and readiness don't wait for an informer to the end
        that nobody requires.
        """
        if isinstance(namespace, EllipsisType):
            namespace = self.namespace if resource.namespaced else None
        place = (resource.plural_name, namespace, label_selector, field_selector)
        informer = cast("Informer[T] | None", self._informers.get(place))
        if informer is None:
            informer = self._informers[place] = Informer(
                self.unfenced,
                resource,
                namespace=namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                resync_seconds=self._options.resync_seconds,
                metrics=self.metrics,
            )
        elif informer.resource != resource:
            raise ValueError(f"{resource.plural_name} is watched as {informer.resource.type} and as {resource.type}")
        for index in indexes:
            informer.add_index(index)
        if required:
            self._required.add(informer)
        return informer

    def controller(
        self,
        name: str,
        *,
        state: Callable[[], S] = cast("Any", type(None)),  # noqa: B008 - a type, for controllers without state
        owner: Callable[[K], str] = _owner_of,
        exists: Callable[[K], bool] | None = None,
        concurrency: int = 10,
        max_per_owner: int | None = None,
        timeout_seconds: float = 60.0,
        retry: RetryPolicy | None = None,
        retry_priority: Priority = Priority.CHANGE,
        not_retried: tuple[type[Exception], ...] = (),
        is_limited: bool = True,
    ) -> Controller[K, S]:
        """Return a new controller; declare its triggers and the function that reconciles on it.

        - `state`: makes the state of a key
        - `owner`: by whose name a key is shared among replicas; "" for a key that every replica reconciles
        - `exists`: whether a key is still there; the state of one that is not is dropped. By default whether its
          object is, of the first kind watched without `to`
        - `concurrency`, `timeout_seconds`: how many keys at once, and how long one reconcile may take
        - `max_per_owner`: how many keys of one owner at once. The others of that owner wait and delay nobody else's, so
          a cluster that hardly answers holds no more workers. Where an owner has one key, no limit is needed
        - `retry`, `retry_priority`: the pauses after failures, and how urgent a key is then
        - `not_retried`: errors after which a trigger comes when it is worth trying again. The causes are kept till then
        - `is_limited`: take part in the limit on reconciles under way, and have workers for events alone. Not for
          reconciles that mostly wait, as they would hold its places
        """
        if name in self.controllers:
            raise ValueError(f"two controllers are named {name!r}")
        options = ControllerOptions(
            concurrency=concurrency,
            max_per_owner=max_per_owner,
            timeout_seconds=timeout_seconds,
            retry=retry or self._options.retry,
            retry_priority=retry_priority,
            is_limited=is_limited,
        )
        made: Controller[K, S] = Controller(
            self, name, options, state=state, owner=owner, exists=exists, not_retried=not_retried
        )
        self.controllers[name] = made
        return made

    def traced(
        self, name: str, trace: str, *, started: datetime | None = None, **attributes: str | int | float
    ) -> AbstractContextManager[None]:
        """Continue a trace that comes from outside, or begin one; signals published in the context are part of it."""
        if self.tracer is None:
            return nullcontext()
        return segment(self.tracer, name, trace, started=started, attributes=attributes)

    def publish(self, signal: object) -> int:
        """Deliver a signal to everyone who receives exactly its type; return how many keys were enqueued."""
        return sum(receive(signal) or 0 for receive in self._receivers.get(type(signal), ()))

    def on(self, signal_type: type[T], handler: Callable[[T], int | None]) -> None:
        """Call a function with each published signal of a type; it may return how many keys it enqueued."""
        self._receivers[signal_type].append(handler)

    def before_start(self, prepare: Callable[[], Awaitable[None]]) -> None:
        """Await a function after the caches are synced and before the controllers run."""
        self._before_start.append(prepare)

    def runs(self, background: Callable[[], Awaitable[None]], *, name: str) -> None:
        """Run a task from start to stop. Its failure ends the manager."""
        self._background.append((name, background))

    def serves(self, server: Callable[[], Awaitable[None]], *, name: str) -> None:
        """Run a server: started last, cancelled first at the stop, and awaited while the queues are worked off."""
        self._servers.append((name, server))

    def check(self, name: str, ready: Callable[[], bool | str]) -> None:
        """Be ready only where a function returns true, and not false or a text that says why not."""
        self._checks[name] = ready

    async def run(self, stopping: asyncio.Event) -> None:
        """Run until stopped. Raises TimeoutError where the first lists don't come in time."""
        monitor = LoopMonitor()
        self.runs(monitor.run, name="loop monitor")
        probes = ProbeServer(monitor, self._checks, registry=self.registry)
        with ExitStack() as stack:
            self.probe_ports = tuple(stack.enter_context(probes.serving(*address)) for address in self._options.probes)
            async with self.background():
                if await _unless_set(stopping, self.start()):
                    await self._work(stopping)

    @asynccontextmanager
    async def background(self) -> AsyncIterator[None]:
        """Run the informers, Events and background tasks inside the context, without any controller."""
        async with asyncio.TaskGroup() as tasks:
            running = [
                *(tasks.create_task(each.run(), name=f"informer {each.resource}") for each in self._informers.values()),
                tasks.create_task(self.events.run(), name="events"),
                *(tasks.create_task(_run_named(name, each), name=name) for name, each in self._background),
            ]
            yield
            for task in running:
                task.cancel()

    async def wait_synced(self) -> None:
        """Wait until the caches hold everything. Raises TimeoutError."""
        async with asyncio.timeout(self._options.sync_timeout_seconds):
            for informer in self._required:
                await informer.wait_synced(self._options.sync_timeout_seconds)
        with suppress(TimeoutError):
            async with asyncio.timeout(OPTIONAL_SYNC_SECONDS):
                for informer in self._informers.values():
                    await informer.wait_synced()

    async def start(self) -> None:
        """Wait until the caches hold everything, then await what `before_start` was given. `run` does so itself."""
        await self.wait_synced()
        for prepare in self._before_start:
            await prepare()

    def owners(self) -> frozenset[str]:
        """Return all owners that have keys."""
        return frozenset().union(*(each.owners() for each in self.controllers.values()))

    def queue_report(self) -> Iterator[str]:
        """Yield lines about each controller: its queue, and which keys fail by what kind of error."""
        for name, controller in self.controllers.items():
            numbers = [f"{number} {what}" for what, number in controller.queue.numbers().items() if number]
            yield f"{name}: {', '.join(numbers) or 'nothing'}"
            failures = list(controller.failures.items())
            for key, failure in failures[-MAX_REPORTED:]:
                yield f"    {key} fails: {failure.error.partition(':')[0]}, {failure.attempts} times in a row"
            if len(failures) > MAX_REPORTED:
                yield f"    and {len(failures) - MAX_REPORTED} more keys fail"

    def begin(self, gained: Collection[str], lost: Collection[str]) -> None:
        """Begin with the keys of gained owners from scratch, and forget those of lost ones."""
        for controller in self.controllers.values():
            controller.begin(gained, lost)

    async def finish(self, is_lost: Callable[[str], bool]) -> None:
        """Return once no reconcile is under way for the owners that a function selects."""
        async with asyncio.TaskGroup() as tasks:
            for controller in self.controllers.values():
                tasks.create_task(controller.finish(is_lost))

    def _synced(self) -> bool:
        return all(informer.synced for informer in self._required)

    async def _work(self, stopping: asyncio.Event) -> None:
        """Work the queues off until stopped, then finish the events and changes in them."""
        controllers = tuple(self.controllers.values())
        for controller in controllers:
            controller.connect()
        async with asyncio.TaskGroup() as tasks:
            for controller in controllers:
                tasks.create_task(controller.run(), name=f"controller {controller.name}")
            sharing = tasks.create_task(self.sharding.run(self), name="sharding")
            serving = [tasks.create_task(_run_named(name, each), name=name) for name, each in self._servers]
            self.working = True
            log.info("started")
            await stopping.wait()
            self.working = False
            log.info("stopping, within %g s", self._options.grace_seconds)
            for task in serving:
                task.cancel()
            await asyncio.gather(*(controller.shutdown(self._options.grace_seconds) for controller in controllers))
            sharing.cancel()  # only now other replicas may take over


async def _run_named(name: str, work: Callable[[], Awaitable[None]]) -> None:
    """Run a server or a background task. What ends the manager is logged by its name, and it never ends silently."""
    running = asyncio.ensure_future(work())  # a task of its own, so that only a real cancellation counts as one
    try:
        await running
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        log.error("%s failed, stopping: it awaited something that was cancelled", name)  # noqa: TRY400
        raise RuntimeError(f"{name} awaited something that was cancelled") from error
    except Exception:
        log.exception("%s failed, stopping", name)
        raise


async def _unless_set(stopping: asyncio.Event, start: Any) -> bool:
    """Await something unless an event is set first. Returns whether it came to its end."""
    async with asyncio.TaskGroup() as tasks:
        starting = tasks.create_task(start)
        waiting = tasks.create_task(stopping.wait())
        await asyncio.wait({starting, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not starting.done():
            starting.cancel()
    return not stopping.is_set()
