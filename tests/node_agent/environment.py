"""The environment of a container: fields of the Pod, and `$(NAME)` in values and arguments."""

import re
from collections.abc import Mapping
from typing import Any

POD_IP = "127.0.0.1"
NODE = "local"
JsonObject = dict[str, Any]
# Fields that only the node knows when a Pod starts; its status gets the same values later.
KNOWN_BY_THE_NODE = {
    "spec.nodeName": NODE,
    "status.hostIP": POD_IP,
    "status.hostIPs": POD_IP,
    "status.podIP": POD_IP,
    "status.podIPs": POD_IP,
}


class FieldUnknown(Exception):
    """A variable refers to a field that the Pod does not have, or that this node does not support."""


def environment_of(container: JsonObject, pod: JsonObject) -> dict[str, str]:
    """Return the variables of a container; each may refer to previous ones. Raises FieldUnknown."""
    found: dict[str, str] = {}
    for entry in container.get("env", ()):
        found[entry["name"]] = (
            _field(entry["valueFrom"], pod) if "valueFrom" in entry else expanded(str(entry.get("value", "")), found)
        )
    return found


def expanded(text: str, environment: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by variables as a kubelet does: unknown names stay, and `$$(NAME)` is an escaped `$(NAME)`."""

    def value(match: re.Match[str]) -> str:
        if match[0].startswith("$$"):
            return match[0][1:]
        return environment.get(match[1], match[0])

    return re.sub(r"\$?\$\(([^()]+)\)", value, text)


def _field(source: JsonObject, pod: JsonObject) -> str:
    path = str(source.get("fieldRef", {}).get("fieldPath", ""))
    if path in KNOWN_BY_THE_NODE:
        return KNOWN_BY_THE_NODE[path]
    if entry := re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path):
        return str(pod["metadata"].get(entry[1], {}).get(entry[2], ""))
    found: Any = pod
    for key in path.split("."):
        if not isinstance(found, dict) or key not in found:
            raise FieldUnknown(f"{source}: unknown field of a Pod")
        found = found[key]
    return str(found)
