"""What of a Watcher CR no API server takes into a webhook configuration.

All Watcher CRs end up in one object in each cluster, which an API server takes whole or not at all: a single one that
can't be meant would keep every cluster at what it had, and a new one without any webhook.
"""

import re

from lifecycle_manager.skr_webhook.documents import OUR_WEBHOOKS, manager_of, name_of
from lifecycle_manager_api import Watcher

LONGEST_NAME = 253

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NAME_OF_A_LABEL = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_KEY = re.compile(rf"({_LABEL}(\.{_LABEL})*/)?{_NAME_OF_A_LABEL}")
_LABEL_VALUE = re.compile(rf"({_NAME_OF_A_LABEL})?")


def flaw_of(watcher: Watcher) -> str | None:
    """Return what is wrong with a Watcher CR, or None where it can be in force."""
    manager, watched = manager_of(watcher), watcher.spec.resource_to_watch
    if len(manager) > LONGEST_NAME or not _SUBDOMAIN.fullmatch(manager):
        return f"the manager {manager[:80]!r} is no DNS subdomain, and so no part of a webhook's path"
    if not watched.resource or not watched.version:
        return "resourceToWatch needs a resource and a version; * stands for all"
    for key, value in watcher.spec.labels_to_watch.items():
        if not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
            return f"labelsToWatch has {f'{key}={value}'[:160]!r}, which is no label"
    name = name_of(watcher)
    if name in OUR_WEBHOOKS:
        return f"a webhook of our own is named {name}; give the Watcher another name"
    if len(name) > LONGEST_NAME:
        return f"the webhook would be named {name}, which is longer than {LONGEST_NAME} letters"
    return None
