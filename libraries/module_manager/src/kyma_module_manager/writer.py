"""Writes SyncResources and the status of ModuleConfigs to the control plane or, in a dry run, to the terminal."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kube_runtime import Client, Conflict, NotFound, Resource, dump_yaml
from lifecycle_manager_api import ModuleConfig, SyncResource
from lifecycle_manager_api.conditions import counted

MODULE_CONFIGS = Resource.of(ModuleConfig)
SYNC_RESOURCES = Resource.of(SyncResource)


class Writer(Protocol):
    """The writes of a manager."""

    async def sync_resource(self, document: Mapping[str, Any]) -> SyncResource | None:
        """Write a SyncResource and return the answer; None in a dry run."""

    async def delete_sync_resource(self, existing: SyncResource) -> None:
        """Delete a SyncResource, but not a later one with the same name."""

    async def status(self, document: Mapping[str, Any]) -> ModuleConfig | None:
        """Write the status of a ModuleConfig and return the answer; None if nothing was written."""


class ClusterWriter:
    """Writes by server-side apply. Raises KubeError."""

    def __init__(self, client: Client, field_manager: str) -> None:
        self._client = client
        self._field_manager = field_manager

    async def sync_resource(self, document: Mapping[str, Any]) -> SyncResource | None:
        """Apply a SyncResource."""
        metadata = document["metadata"]
        return await self._client.apply(
            SYNC_RESOURCES,
            metadata["name"],
            document,
            metadata["namespace"],
            field_manager=self._field_manager,
        )

    async def delete_sync_resource(self, existing: SyncResource) -> None:
        """Delete a SyncResource, unless it is already deleted or replaced."""
        metadata = existing.metadata
        try:
            await self._client.delete(SYNC_RESOURCES, metadata.name, metadata.namespace, uid=metadata.uid)
        except (NotFound, Conflict):
            return

    async def status(self, document: Mapping[str, Any]) -> ModuleConfig | None:
        """Apply the status of a ModuleConfig, unless it is already deleted."""
        metadata = document["metadata"]
        try:
            return await self._client.apply(
                MODULE_CONFIGS,
                metadata["name"],
                document,
                metadata["namespace"],
                field_manager=self._field_manager,
                subresource="status",
            )
        except NotFound:
            return None


class PrintingWriter:
    """Prints the documents instead of writing them."""

    def __init__(self, echo: Callable[[str], None]) -> None:
        self._echo = echo
        self._printed = 0

    def end(self, configs: int) -> None:
        """Print of how many ModuleConfigs all was printed that a run would write."""
        what = f"would write {counted(self._printed, 'document')}" if self._printed else "would write nothing"
        self._echo(f"# {counted(configs, 'ModuleConfig')}: {what}\n")

    async def sync_resource(self, document: Mapping[str, Any]) -> SyncResource | None:
        """Print a SyncResource."""
        self._print(document)
        return None

    async def delete_sync_resource(self, existing: SyncResource) -> None:
        """Print the reference of the SyncResource to delete."""
        self._printed += 1
        self._echo(f"# would delete SyncResource {existing.metadata.namespace}/{existing.metadata.name}\n")

    async def status(self, document: Mapping[str, Any]) -> ModuleConfig | None:
        """Print the status of a ModuleConfig."""
        self._print(document)
        return None

    def _print(self, document: Mapping[str, Any]) -> None:
        self._printed += 1
        self._echo(f"---\n{dump_yaml(dict(document))}")
