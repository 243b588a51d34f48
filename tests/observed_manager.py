"""A Manager for the tests under faults: the harness counts its reconciles and cancels them."""

from collections.abc import Awaitable, Callable
from typing import Any

from kube_runtime import Controller, EventRecorder, Manager, ManagerOptions
from lifecycle_manager_api import names
from tests.faults import Process


class Silence(EventRecorder):
    """Records nothing: the names of Events are never the same twice."""

    def record(self, *_: Any, **__: Any) -> None:
        return

    async def write_to(self, *_: Any, **__: Any) -> None:
        return


class ObservedManager(Manager):
    """A Manager whose reconciles the fault harness counts and cancels."""

    def __init__(self, life: Process, resync_seconds: float | None = None, **given: Any) -> None:
        kcp = life.clients["kcp"]
        events = Silence(kcp, controller="test", instance="test")
        options = ManagerOptions(sync_timeout_seconds=60, resync_seconds=resync_seconds)
        super().__init__(kcp, options, namespace=names.KCP_NAMESPACE, events=events, **given)
        self.life = life

    def controller(self, name: str, **options: Any) -> Controller[Any, Any]:
        made: Controller[Any, Any] = super().controller(name, **options)
        reconciles = made.reconciles

        def observed(reconcile: Callable[[Any, Any, Any], Awaitable[Any]], **options: Any) -> None:
            reconciles(self.life.observed(reconcile), **options)  # type: ignore[arg-type]  # a method is a coroutine function

        setattr(made, "reconciles", observed)  # noqa: B010 - mypy takes no assignment to a method
        return made
