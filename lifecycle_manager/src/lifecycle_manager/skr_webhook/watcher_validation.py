"""Which Watcher CRs no API server accepts as part of a webhook configuration.

All Watcher CRs become one object in each SKR, which an API server accepts whole or not at all: a single invalid one
would keep every SKR at its former configuration, and a new SKR without any webhook.
"""

import re

from lifecycle_manager.skr.watcher import manager_of
from lifecycle_manager.skr_webhook.documents import OUR_WEBHOOKS, name_of
from lifecycle_manager_api import Watcher

MAX_NAME_LENGTH = 253

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NAME_OF_A_LABEL = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_KEY = re.compile(rf"({_LABEL}(\.{_LABEL})*/)?{_NAME_OF_A_LABEL}")
_LABEL_VALUE = re.compile(rf"({_NAME_OF_A_LABEL})?")


def error_of(watcher: Watcher) -> str | None:
    """Return why a Watcher CR is invalid, or None."""
    manager, watched = manager_of(watcher), watcher.spec.resource_to_watch
    if len(manager) > MAX_NAME_LENGTH or not _SUBDOMAIN.fullmatch(manager):
        return f"spec.manager: {manager[:80]!r} is not a DNS subdomain"
    if not watched.resource or not watched.version:
        return "spec.resourceToWatch: resource and version are required; use * for all"
    for key, value in watcher.spec.labels_to_watch.items():
        if not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
            return f"spec.labelsToWatch: {f'{key}={value}'[:160]!r} is not a valid label"
    name = name_of(watcher)
    if name in OUR_WEBHOOKS:
        return f"metadata.name: the webhook name {name} is reserved; use another name for the Watcher"
    if len(name) > MAX_NAME_LENGTH:
        return f"metadata.name: the webhook name {name} is longer than {MAX_NAME_LENGTH} characters"
    return None
