"""Translates a container into a process: pure functions, except for the search of free ports."""

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from tests.node_agent.environment import POD_IP, JsonObject, environment_of, expanded

PROGRAMS = Path(sys.executable).parent
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class ImageUnknown(Exception):
    """A Pod has an image that this node does not know."""


@dataclass(frozen=True)
class Image:
    """An image: its entrypoint, and environment variables that are set on this machine."""

    entrypoint: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


IMAGES = {
    "lifecycle-manager": Image(("klm",)),
    "module-manager": Image(("kyma-module-manager",)),
    # All Pods share one machine: a Pod without an address to listen on gets that of the loopback interface.
    "skr-watcher": Image(("skr-watcher",), {"WEBHOOK_HOST": "127.0.0.1", "METRICS_HOST": "127.0.0.1"}),
}


@dataclass(frozen=True)
class Process:
    """The process of a container. `ports` maps the container's ports to those of this machine."""

    command: tuple[str, ...]
    environment: dict[str, str]
    ports: dict[int, int]
    named_ports: dict[str, int]

    def port(self, wanted: int | str) -> int | None:
        """Return this machine's port for one of the container's, by number or name."""
        if isinstance(wanted, str):
            return self.named_ports.get(wanted)
        return self.ports.get(wanted)


def process_of(
    pod: JsonObject,
    mounts: Mapping[str, Path],
    free_port: Callable[[], int],
    versions: Mapping[str, Path] = MappingProxyType({}),
) -> Process:
    """Return the process for a Pod's only container; `mounts` maps the paths in the container to folders.

    `versions` maps tags of images to folders of programs; all others are those of this venv.
    Raises ImageUnknown, FieldUnknown.
    """
    (container,) = pod["spec"]["containers"]
    image = image_of(container["image"])
    described = container.get("ports", [])
    ports = {port["containerPort"]: free_port() for port in described}
    named = {port["name"]: ports[port["containerPort"]] for port in described if "name" in port}

    def here(text: str) -> str:
        return _with_addresses(_with_folders(text, mounts), ports)

    environment = environment_of(container, pod)
    described_words = [*(container.get("command") or image.entrypoint), *(container.get("args") or ())]
    words = [expanded(word, environment) for word in described_words]
    translated = {
        name: str(ports[int(value)]) if value.isdecimal() and int(value) in ports else here(value)
        for name, value in environment.items()
    }
    if "/tmp" in mounts:  # noqa: S108 - the path in the container
        translated["TMPDIR"] = str(mounts["/tmp"])  # noqa: S108
    programs = versions.get(container["image"].rpartition(":")[2], PROGRAMS)
    command = (str(programs / words[0]), *(here(word) for word in words[1:]))
    return Process(command, {**image.environment, **translated}, ports, named)


def image_of(reference: str) -> Image:
    """Return the image of a reference. Raises ImageUnknown."""
    repository = reference.partition("@")[0].rpartition("/")[2].partition(":")[0]
    if repository not in IMAGES:
        raise ImageUnknown(f"{reference}: unknown image; this node has {', '.join(IMAGES)}")
    return IMAGES[repository]


def _with_folders(text: str, mounts: Mapping[str, Path]) -> str:
    for path, folder in mounts.items():
        text = re.sub(rf"(^|=){re.escape(path)}(?=/|$)", rf"\g<1>{folder}", text)
    return text


def _with_addresses(text: str, ports: Mapping[int, int]) -> str:
    """Replace the container's port by this machine's in an address of the Pod or of all its interfaces, such as `:8080`
    to listen on, or `<Pod's IP>:8080` for others."""

    def address(match: re.Match[str]) -> str:
        port = int(match[2])
        return f"{match[1]}{POD_IP}:{ports[port]}" if port in ports else match[0]

    return re.sub(rf"(^|=|//)(?:{re.escape(POD_IP)}|0\.0\.0\.0)?:(\d+)(?=/|$)", address, text)
