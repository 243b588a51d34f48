"""What of an object goes into a support archive: pure functions.

Kept is what is named here: identity, conditions and the fields of `spec` that say what was asked for. What users and
module teams write freely (data of modules, rendered objects, values of environment variables, foreign annotations) is
left out. In all texts that are kept, what looks like a credential is replaced.
"""

import re
from collections.abc import Mapping
from typing import Any

from lifecycle_manager_api import names

REDACTED = "REDACTED"
METADATA = frozenset(
    {"name", "namespace", "uid", "generation", "resourceVersion", "creationTimestamp", "deletionTimestamp", "labels"}
    | {"finalizers", "ownerReferences"}
)
ALL_OF_SPEC = frozenset({"ModuleReleaseMeta", "ModuleRollout", "RolloutStrategy", "ModulePolicy", "Watcher", "Lease"})
SPEC = {
    "Kyma": ("channel", "modules", "skipMaintenanceWindows"),
    "Manifest": ("version", "install", "remote", "customResourcePolicy"),
    "ModuleConfig": ("kyma", "module", "resourceRef"),
    "SyncResource": ("kyma", "module", "prune"),
    "ModuleTemplate": ("channel", "enableModuleConfig", "mandatory", "moduleName", "requiresDowntime", "version"),
    "Deployment": ("replicas", "strategy", "selector"),
}
FREE_STATUS = frozenset({"moduleStatus"})
"""Fields of a status that a module team writes freely."""
EVENT = ("type", "reason", "note", "action", "regarding", "reportingController", "eventTime", "series")
SENSITIVE = re.compile(
    r"(?i)pass(word|wd|phrase)|token|secret|credential|api[_-]?key|private[_-]?key|authorization|kubeconfig"
)
CREDENTIALS = re.compile(
    r"""-----BEGIN[ ][^-]+-----.*?(-----END[ ][^-]+-----|\Z)
    | \beyJ[\w-]{8,}\.[\w-]{4,}(\.[\w-]*)?
    | \b(?i:bearer|basic)\s+[\w.~+/=-]{8,}
    | (?<=://)[^/\s@]+(?=@)
    | [A-Za-z0-9+/_-]{100,}={0,2}
    | (?P<before>(?i:(pass(word|wd|phrase)|token|api[_-]?key|private[_-]?key|client-key-data|secret[_-]?\w*
        |x-(amz|goog)-(signature|credential)|(?<=[?&])(sig|jwt))
      \\?["']?\s*[=:]\s* | --[a-z-]{0,32}(password|token|secret)\s+))
      (\\"[^"]*"|"[^"]*"|'[^']*'|[^\s,;&]+)""",
    re.DOTALL | re.VERBOSE | re.ASCII,
)
"""What it takes grows with the length of a text alone: anybody may write into a log."""


def redacted(text: str) -> str:
    """Return a text without what looks like a credential."""
    return CREDENTIALS.sub(lambda found: f"{found['before'] or ''}{REDACTED}", text)


def kept_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of an object."""
    kind = str(document.get("kind", ""))
    metadata, spec, status = (document.get(each) or {} for each in ("metadata", "spec", "status"))
    kept: dict[str, Any] = {"apiVersion": document.get("apiVersion", ""), "kind": kind}
    kept["metadata"] = {key: value for key, value in metadata.items() if key in METADATA}
    if annotations := metadata.get("annotations"):
        kept["metadata"]["annotations"] = {
            key: value if key.startswith(f"{names.GROUP}/") else REDACTED for key, value in annotations.items()
        }
    if kind == "Event":
        kept |= {key: document[key] for key in EVENT if key in document}
    elif kind in ALL_OF_SPEC:
        kept["spec"] = spec
    else:
        kept["spec"] = {key: spec[key] for key in SPEC.get(kind, ()) if key in spec}
    template = spec if kind == "Pod" else (spec.get("template") or {}).get("spec") or {}
    if kind in {"Deployment", "Pod"}:
        kept["spec"]["containers"] = [_container(each) for each in template.get("containers") or ()]
    if status:
        kept["status"] = {key: value for key, value in status.items() if key not in FREE_STATUS}
    found: dict[str, Any] = without_credentials(kept)
    return found


def _container(container: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: container[key] for key in ("name", "image", "ports", "resources") if key in container}
    return kept | {
        "args": _arguments([str(each) for each in container.get("args") or ()]),
        "env": [{"name": each.get("name", ""), "value": REDACTED} for each in container.get("env") or ()],
    }


def _arguments(given: list[str]) -> list[str]:
    kept: list[str] = []
    is_value = False
    for each in given:
        name, joint, _ = each.partition("=")
        is_sensitive = bool(SENSITIVE.search(name))
        kept.append(REDACTED if is_value else f"{name}={REDACTED}" if joint and is_sensitive else each)
        is_value = is_sensitive and not joint and each.startswith("-")
    return kept


def without_credentials(value: Any, key: str = "") -> Any:
    """Return a value of JSON without what looks like a credential, by its key or its text."""
    match value:
        case dict():
            return {name: without_credentials(each, name) for name, each in value.items()}
        case list() | tuple():
            return [without_credentials(each, key) for each in value]
        case str():
            return REDACTED if key and SENSITIVE.search(key) else redacted(value)
        case _:
            return value
