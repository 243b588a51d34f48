"""Which Watcher CRs are in force, and how a Kyma records from which of them its SKR's webhook was made.

All Watcher CRs become one object in each SKR, which an API server accepts whole or not at all: a single invalid one
would keep every SKR at its former configuration, and a new SKR without any webhook. So invalid ones are left out.
"""

import hashlib
import re
from collections.abc import Iterable

from kube_runtime import Change
from lifecycle_manager.contract.changes import metadata_changed
from lifecycle_manager_api import Kyma, Watcher, names

DEFAULT_WEBHOOK = f"{names.KCP_NAMESPACE}.{names.LIFECYCLE_MANAGER}.{names.GROUP}"
CATALOG_WEBHOOK = f"{names.KCP_NAMESPACE}.module-catalog.{names.GROUP}"
CANARY_WEBHOOK = f"{names.KCP_NAMESPACE}.canary.{names.GROUP}"
MODULES_WEBHOOK = f"{names.KCP_NAMESPACE}.module-configs.{names.GROUP}"
OBJECTS_WEBHOOK = f"{names.KCP_NAMESPACE}.module-objects.{names.GROUP}"
RESERVED_NAMES = frozenset({CATALOG_WEBHOOK, CANARY_WEBHOOK, MODULES_WEBHOOK, OBJECTS_WEBHOOK})
"""The names of the webhooks that are not made from a Watcher CR."""

EVENT_CONTRACT = "v2"
"""The version of the contract of events, in the path to which Watchers send them."""
MAX_NAME_LENGTH = 253
SEPARATOR = "."
"""Between the digest of the objects and that of the Watcher CRs, in the record of both."""

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NAME_OF_A_LABEL = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_KEY = re.compile(rf"({_LABEL}(\.{_LABEL})*/)?{_NAME_OF_A_LABEL}")
_LABEL_VALUE = re.compile(rf"({_NAME_OF_A_LABEL})?")


def watcher_changed(change: Change[Watcher]) -> bool:
    """Tell whether a Watcher CR was created or deleted, or more than its status has changed."""
    old, new = change.old, change.new
    return old is None or new is None or old.spec != new.spec or metadata_changed(old.metadata, new.metadata)


def manager_of(watcher: Watcher) -> str:
    """Return the manager to whose path the events of a Watcher CR are sent."""
    return watcher.spec.manager or watcher.metadata.labels.get(names.MANAGED_BY, names.LIFECYCLE_MANAGER)


def webhook_name_of(watcher: Watcher) -> str:
    return f"{watcher.metadata.namespace}.{watcher.metadata.name}.{names.GROUP}"


def error_of(watcher: Watcher) -> str | None:
    """Return why no API server accepts a Watcher CR as part of a webhook configuration, or None."""
    manager, watched = manager_of(watcher), watcher.spec.resource_to_watch
    if len(manager) > MAX_NAME_LENGTH or not _SUBDOMAIN.fullmatch(manager):
        return f"spec.manager: {manager[:80]!r} is not a DNS subdomain"
    if not watched.resource or not watched.version:
        return "spec.resourceToWatch: resource and version are required; use * for all"
    for key, value in watcher.spec.labels_to_watch.items():
        if not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
            return f"spec.labelsToWatch: {f'{key}={value}'[:160]!r} is not a valid label"
    name = webhook_name_of(watcher)
    if name in RESERVED_NAMES:
        return f"metadata.name: the webhook name {name} is reserved; use another name for the Watcher"
    if len(name) > MAX_NAME_LENGTH:
        return f"metadata.name: the webhook name {name} is longer than {MAX_NAME_LENGTH} characters"
    return None


def valid_watchers(watchers: Iterable[Watcher]) -> tuple[Watcher, ...]:
    """Return the Watcher CRs that webhooks are made from: the valid ones that are not being deleted."""
    return tuple(each for each in watchers if not each.metadata.being_deleted and error_of(each) is None)


def watchers_digest(watchers: Iterable[Watcher]) -> str:
    lines = sorted(
        f"{each.metadata.uid} {each.metadata.generation} {manager_of(each)}" for each in valid_watchers(watchers)
    )
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=6).hexdigest()


def recorded_watchers(kyma: Kyma) -> str:
    return kyma.status.records.watcher.partition(SEPARATOR)[2]
