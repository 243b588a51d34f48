"""The context of a module's function: the Kyma, and the state of the objects of its last run."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import structlog

from kube_runtime import ManifestInvalid, parse_objects
from lifecycle_manager_api import ModuleConfig, State, SyncedObject, SyncResource, find


@dataclass(frozen=True, slots=True)
class Synced:
    """What Lifecycle Manager last reported of the objects in the SKR; of none before the first report.

    - `state`, `reason`, `message`: of all objects together
    - `is_current`: whether that is about the text of the last run; otherwise a change is on its way
    - `objects`: each object with its own state and message
    """

    state: State = State.EMPTY
    reason: str = ""
    message: str = ""
    is_current: bool = False
    objects: tuple[SyncedObject, ...] = ()

    def find(self, kind: str, name: str, namespace: str = "", *, group: str = "") -> SyncedObject | None:
        """Return one object, or None if it is not reported."""
        wanted = (group, kind, namespace, name)
        return next((it for it in self.objects if (it.group, it.kind, it.namespace, it.name) == wanted), None)


@dataclass(frozen=True)
class ModuleContext:
    """The context of one run of a module's function.

    `sync_resource` is the SyncResource of the last run, with the state that Lifecycle Manager reported since; None on
    the first run. A change of that state, which `synced()` returns, runs the function again, so that a second stage can
    follow the first.
    """

    module_config: ModuleConfig
    sync_resource: SyncResource | None = None

    @property
    def kyma(self) -> str:
        """Name of the Kyma, and thereby of the SKR."""
        return self.module_config.spec.kyma

    @property
    def module(self) -> str:
        """Name of the module."""
        return self.module_config.spec.module

    @property
    def name(self) -> str:
        """Name of both the ModuleConfig and the SyncResource."""
        return self.module_config.metadata.name

    def synced(self) -> Synced:
        """Return what is reported of the objects of the last run. A change of it runs the function again."""
        if self.sync_resource is None:
            return Synced()
        status = self.sync_resource.status
        ready = find(status.conditions, "Ready")
        return Synced(
            state=status.state,
            reason=ready.reason if ready is not None else "",
            message=ready.message if ready is not None else "",
            is_current=status.observed_generation == self.sync_resource.metadata.generation,
            objects=status.synced,
        )

    def written(self, kind: str, name: str, namespace: str = "", *, group: str = "") -> Mapping[str, Any] | None:
        """Return one object as the last run wrote it, or None if that run did not return it.

        A second stage that was once started can so be kept while the first one is being changed.
        """
        return self._written.get((group, kind, namespace, name))

    @cached_property
    def _written(self) -> dict[tuple[str, str, str, str], Mapping[str, Any]]:
        text = self.sync_resource.spec.resource if self.sync_resource is not None else ""
        try:
            objects = parse_objects(text)
        except ManifestInvalid as error:
            self.log.warning("the SyncResource was edited by somebody, and is written anew", error=str(error))
            return {}
        return {
            (each.api_version.rpartition("/")[0], each.kind, each.namespace, each.name): each.document
            for each in objects
        }

    @cached_property
    def log(self) -> structlog.stdlib.BoundLogger:
        """A logger that adds Kyma and module to its lines."""
        logger: structlog.stdlib.BoundLogger = structlog.get_logger(f"module_manager.{self.module}")
        return logger.bind(kyma=self.kyma, module=self.module, name=self.name)
