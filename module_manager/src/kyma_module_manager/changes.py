"""Which changes are worth a reconcile: what others did, and not the echo of this manager's own writes."""

from collections.abc import Callable

from kube_runtime import Change, ObjectKey
from kyma_module_manager.latest import HasMetadata, Latest
from lifecycle_manager_api import ModuleConfig, SyncResource

__all__ = ["module_config_handler", "sync_resource_handler"]

Notice = Callable[[ObjectKey], None]


def module_config_handler(latest: Latest[ModuleConfig], notice: Notice) -> Callable[[Change[ModuleConfig]], None]:
    """Return a handler that notices new content, new labels and annotations, and deletion."""

    def handle(change: Change[ModuleConfig]) -> None:
        if change.new is None:
            if change.old is not None:
                latest.gone(_key(change.old), change.old.metadata.uid)
            return
        if change.old is None or _content(change.old) != _content(change.new):
            notice(_key(change.new))

    return handle


def sync_resource_handler(latest: Latest[SyncResource], notice: Notice) -> Callable[[Change[SyncResource]], None]:
    """Return a handler that notices a new status, somebody else's edit, and that a SyncResource has gone."""

    def handle(change: Change[SyncResource]) -> None:
        if change.new is None:
            if change.old is not None:
                latest.gone(_key(change.old), change.old.metadata.uid)
                notice(_key(change.old))
            return
        if not latest.is_own_write(_key(change.new), change.new):
            notice(_key(change.new))

    return handle


def _key(thing: HasMetadata) -> ObjectKey:
    return ObjectKey(thing.metadata.namespace, thing.metadata.name)


def _content(config: ModuleConfig) -> tuple[object, ...]:
    metadata = config.metadata
    return (
        metadata.uid,
        metadata.generation,
        metadata.deletion_timestamp,
        dict(metadata.labels),
        dict(metadata.annotations),
    )
