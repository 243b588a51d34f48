"""What is watched in the control plane. Clusters of users are never watched: events come from there."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kube_runtime import Client, Informer, JsonObject, RuntimeMetrics
from lifecycle_manager.mandatory_modules import mandatory_index
from lifecycle_manager.module_config import module_index
from lifecycle_manager.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DATED_RELEASE_METAS,
    KYMAS,
    MANIFESTS,
    MODULE_CONFIGS,
    MODULE_TEMPLATES,
    SECRETS,
    SYNC_RESOURCES,
    WATCHERS,
    DatedReleaseMeta,
    Secret,
)
from lifecycle_manager.skr import access_index
from lifecycle_manager.skr.identity import runtime_id_of
from lifecycle_manager.sync_resource import claim_index
from lifecycle_manager_api import (
    Kyma,
    Manifest,
    ModuleConfig,
    ModuleTemplate,
    SyncResource,
    Watcher,
    names,
)

OUR_SECRETS = f"{names.MANAGED_BY}={names.LIFECYCLE_MANAGER}"
KYMA_DEFINITION = f"metadata.name={KYMAS.plural_name}"
DEFINITION_SECONDS = 5.0
"""How long to wait at the start for the definition of Kymas, when everything else is there."""


@dataclass(frozen=True, eq=False)
class Informers:
    """One informer for each kind, with the indexes by which the controllers ask."""

    kymas: Informer[Kyma]
    templates: Informer[ModuleTemplate]
    releases: Informer[DatedReleaseMeta]
    watchers: Informer[Watcher]
    secrets: Informer[Secret]
    manifests: Informer[Manifest]
    module_configs: Informer[ModuleConfig]
    sync_resources: Informer[SyncResource]
    kyma_definitions: Informer[JsonObject]

    @classmethod
    def on(cls, kcp: Client, metrics: RuntimeMetrics | None = None) -> "Informers":
        """Make the informers of the control plane; nothing is read before they run."""
        namespace = names.KCP_NAMESPACE
        return cls(
            kymas=Informer(
                kcp,
                KYMAS,
                namespace=namespace,
                metrics=metrics,
                indexes={
                    "runtime": lambda it: [runtime_id_of(it)],
                    "module": modules_in_use,
                    "channel": channels_in_use,
                    "template": templates_in_use,
                },
            ),
            templates=Informer(kcp, MODULE_TEMPLATES, namespace=namespace, metrics=metrics),
            releases=Informer(kcp, DATED_RELEASE_METAS, namespace=namespace, metrics=metrics),
            watchers=Informer(kcp, WATCHERS, namespace=namespace, metrics=metrics),
            secrets=Informer(
                kcp,
                SECRETS,
                namespace=namespace,
                metrics=metrics,
                label_selector=OUR_SECRETS,
                indexes={"access": access_index},
            ),
            manifests=Informer(
                kcp,
                MANIFESTS,
                namespace=namespace,
                metrics=metrics,
                indexes={"kyma": _kyma_of_manifest, "mandatory": mandatory_index},
            ),
            module_configs=Informer(
                kcp,
                MODULE_CONFIGS,
                namespace=namespace,
                metrics=metrics,
                indexes={"kyma": lambda it: [it.spec.kyma], "module": module_index},
            ),
            sync_resources=Informer(
                kcp,
                SYNC_RESOURCES,
                namespace=namespace,
                metrics=metrics,
                indexes={"kyma": _kyma_of_sync_resource, "claim": claim_index},
            ),
            kyma_definitions=Informer(
                kcp, CUSTOM_RESOURCE_DEFINITIONS, field_selector=KYMA_DEFINITION, metrics=metrics
            ),
        )

    def start_in(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Run all of them in a task group."""
        return [
            tasks.create_task(informer.run(), name=f"informer {number}")
            for number, informer in enumerate((*self._needed(), self.kyma_definitions))
        ]

    async def wait_synced(self, timeout_seconds: float, definition_seconds: float = DEFINITION_SECONDS) -> None:
        """Wait until every cache holds what the control plane holds. Raises TimeoutError.

        The definition of Kymas is not waited for to the end: clusters have one, and the users of those who run this
        version with the rights of an earlier one want the rest. Its informer tells what keeps it, and goes on trying.
        """
        async with asyncio.timeout(timeout_seconds):
            for informer in self._needed():
                await informer.wait_synced(timeout_seconds)
        with suppress(TimeoutError):
            await self.kyma_definitions.wait_synced(definition_seconds)

    @property
    def synced(self) -> bool:
        """Tell whether every cache that is needed holds what the control plane holds."""
        return all(informer.synced for informer in self._needed())

    def _needed(self) -> tuple[Informer[Any], ...]:
        return (
            self.kymas,
            self.templates,
            self.releases,
            self.watchers,
            self.secrets,
            self.manifests,
            self.module_configs,
            self.sync_resources,
        )


def modules_in_use(kyma: Kyma) -> Iterable[str]:
    """Index a Kyma by the modules that its status names."""
    return (module.name for module in kyma.status.modules)


def channels_in_use(kyma: Kyma) -> Iterable[str]:
    """Index a Kyma by `module/channel`."""
    return (f"{module.name}/{module.channel}" for module in kyma.status.modules)


def templates_in_use(kyma: Kyma) -> Iterable[str]:
    """Index a Kyma by the ModuleTemplates that its modules resolved to."""
    return (module.template.metadata.name for module in kyma.status.modules if module.template is not None)


def _kyma_of_manifest(manifest: Manifest) -> Iterable[str]:
    if kyma := manifest.metadata.labels.get(names.KYMA_NAME):
        yield kyma


def _kyma_of_sync_resource(resource: SyncResource) -> Iterable[str]:
    yield resource.spec.kyma
