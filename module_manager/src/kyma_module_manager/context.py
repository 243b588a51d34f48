"""The context of a module's function: the Kyma, and the state of the objects of its last run."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import structlog

from kube_runtime import parse_objects
from lifecycle_manager_api import ModuleConfig, SyncedObject, SyncResource

__all__ = ["ModuleContext"]


@dataclass(frozen=True)
class ModuleContext:
    """The context of one run of a module's function.

    `sync_resource` is the SyncResource of the last run, with the state that Lifecycle Manager reported since; None on
    the first run. A change of that state runs the function again, so that a second stage can follow the first.
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

    def synced(self, kind: str, name: str, namespace: str = "", *, group: str = "") -> SyncedObject | None:
        """Return the reported state of one object of the last run, or None if it is not reported."""
        wanted = (group, kind, namespace, name)
        reported = self.sync_resource.status.synced if self.sync_resource is not None else ()
        return next((item for item in reported if (item.group, item.kind, item.namespace, item.name) == wanted), None)

    def written(self, kind: str, name: str, namespace: str = "", *, group: str = "") -> Mapping[str, Any] | None:
        """Return one object as the last run wrote it, or None if that run did not return it.

        A second stage that was once started can so be kept while the first one is being changed.
        """
        return self._written.get((group, kind, namespace, name))

    @cached_property
    def _written(self) -> dict[tuple[str, str, str, str], Mapping[str, Any]]:
        text = self.sync_resource.spec.resource if self.sync_resource is not None else ""
        return {
            (each.api_version.rpartition("/")[0], each.kind, each.namespace, each.name): each.document
            for each in parse_objects(text)
        }

    @cached_property
    def log(self) -> structlog.stdlib.BoundLogger:
        """A logger that adds Kyma and module to its lines."""
        logger: structlog.stdlib.BoundLogger = structlog.get_logger(f"module_manager.{self.module}")
        return logger.bind(kyma=self.kyma, module=self.module, name=self.name)
