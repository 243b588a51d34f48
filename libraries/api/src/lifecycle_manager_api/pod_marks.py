"""Labels and annotations that change how Pods run: each counts as the fields of a Pod that it stands for.

A program that injects something reads them from a Pod, from its template in any kind, or from a Namespace. So they are
found by their names, wherever they are.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from lifecycle_manager_api.embedded_pods import NamedValue
from lifecycle_manager_api.pod_security import Document, PodTemplate

ENFORCED = "pod-security.kubernetes.io/enforce"
"""Label of a Namespace: the level of the Pod Security Standards there."""

LEVELS = ("restricted", "baseline", "privileged")
_VOLUMES = ("sidecar.istio.io/userVolume",)
_PREFIXES = (
    "config.linkerd.io/",
    "container.seccomp.security.alpha.kubernetes.io/",
    "inject.istio.io/",
    "instrumentation.opentelemetry.io/",
    "io.containerd.",
    "io.katacontainers.",
    "io.kubernetes.cri-o.",
    "k8s.v1.cni.cncf.io/",
    "pod.alpha.kubernetes.io/",
    "pod.beta.kubernetes.io/",
    "proxy.istio.io/",
    "run.oci.",
    "seccomp.security.alpha.kubernetes.io/",
    "security.alpha.kubernetes.io/",
    "sidecar.istio.io/",
    "sidecar.opentelemetry.io/",
    "vault.hashicorp.com/",
)
_SWITCH, _AMOUNT, _WORD = re.compile("true|false|"), re.compile(r"[0-9.]+[A-Za-z]{0,2}"), re.compile("[a-zA-Z:,]*")
_HARMLESS: Mapping[str, re.Pattern[str]] = {
    "sidecar.istio.io/agentLogLevel": _WORD,
    "sidecar.istio.io/componentLogLevel": _WORD,
    "sidecar.istio.io/inject": _SWITCH,
    "sidecar.istio.io/logLevel": _WORD,
    "sidecar.istio.io/nativeSidecar": _SWITCH,
    "sidecar.istio.io/proxyCPU": _AMOUNT,
    "sidecar.istio.io/proxyCPULimit": _AMOUNT,
    "sidecar.istio.io/proxyMemory": _AMOUNT,
    "sidecar.istio.io/proxyMemoryLimit": _AMOUNT,
    "sidecar.istio.io/rewriteAppHTTPProbers": _SWITCH,
    "proxy.istio.io/config": re.compile(
        r"\s*+(\{\s*+)?\"?(holdApplicationUntilProxyStarts|concurrency|terminationDrainDuration)\"?\s*+:"
        r"\s*+\"?\w++\"?\s*+(\}\s*+)?"  # of time that grows with the length, not with its square
    ),
    "seccomp.security.alpha.kubernetes.io/pod": re.compile("runtime/default|docker/default|localhost/.*"),
    "vault.hashicorp.com/agent-inject": re.compile("false"),
}
"""Those that change nothing that the Pod Security Standards restrict, with the values for which that holds."""


def marks_in(values: Iterable[NamedValue]) -> Iterator[tuple[str, str]]:
    """Yield the labels and annotations that change how Pods run, beyond what every Pod may have, with their values."""
    for key, value in values:
        if key.startswith(_PREFIXES) and key not in _VOLUMES and not _is_harmless(key, value):
            yield key, value if isinstance(value, str) else type(value).__name__


def enforced_levels(values: Iterable[NamedValue]) -> Iterator[str]:
    """Yield the levels of the Pod Security Standards that an object has enforced; an unknown one as privileged."""
    for key, value in values:
        if key == ENFORCED:
            yield value if value in LEVELS else "privileged"


def pods_in_marks(values: Iterable[NamedValue]) -> Iterator[PodTemplate]:
    """Yield Pods with what annotations add to them: the volumes of Istio's sidecar."""
    for key, value in values:
        if key in _VOLUMES:
            yield PodTemplate({"volumes": [*_volumes_in(value)]}, {})


def _volumes_in(value: Any) -> Iterator[Document]:
    """Yield the volumes in an annotation, which has them as a map or as a list; what is neither as a hostPath."""
    try:
        found = msgspec.json.decode(value) if isinstance(value, str) else value
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        found = None
    if isinstance(found, Mapping):
        found = [{"name": name, **each} if isinstance(each, Mapping) else each for name, each in found.items()]
    if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
        found = [{"name": "(not readable)", "hostPath": {}}]
    yield from found


def _is_harmless(key: str, value: Any) -> bool:
    text = str(value).lower() if isinstance(value, bool) else value
    return key in _HARMLESS and isinstance(text, str) and _HARMLESS[key].fullmatch(text) is not None
