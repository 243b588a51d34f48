"""The Pod Security Standards as checks of Pod specs: which rules of a level a Pod or a Pod template violates.

The rules are those of https://kubernetes.io/docs/concepts/security/pod-security-standards/ (Kubernetes 1.36). Each
check is named by what it finds and returns where it found it. A value of a wrong type counts as set: an API server
would reject it anyway.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

Document = Mapping[str, Any]


class PodTemplate(NamedTuple):
    """The spec of a Pod, and the annotations that the Pod has."""

    spec: Document
    annotations: Document


class PodSecurityViolation(NamedTuple):
    """A rule of the Pod Security Standards that a Pod violates, and where."""

    rule: str
    message: str


Check = Callable[[PodTemplate], Iterator[str]]

_TEMPLATE = ("spec", "template")
_PATHS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "Pod"): (),
    ("", "PodTemplate"): ("template",),
    ("", "ReplicationController"): _TEMPLATE,
    ("apps", "Deployment"): _TEMPLATE,
    ("apps", "StatefulSet"): _TEMPLATE,
    ("apps", "DaemonSet"): _TEMPLATE,
    ("apps", "ReplicaSet"): _TEMPLATE,
    ("batch", "Job"): _TEMPLATE,
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
}
_CAPABILITIES = frozenset(
    (
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    )
)
_SELINUX_TYPES = frozenset(("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"))
_SYSCTLS = frozenset(
    (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    )
)
_VOLUMES = frozenset(
    (
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    )
)
_PROFILES = frozenset(("RuntimeDefault", "Localhost"))
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def pod_template_of(group: str, kind: str, document: Document) -> PodTemplate | None:
    """Return the Pod, or the template of the Pods, that an object has; None for other kinds."""
    path = _PATHS.get((group, kind))
    if path is None:
        return None
    at = document
    for step in path:
        at = mapping(at.get(step))
    return PodTemplate(mapping(at.get("spec")), mapping(mapping(at.get("metadata")).get("annotations")))


def violated_rules(pod: PodTemplate, level: str) -> Iterator[PodSecurityViolation]:
    """Yield the rules of a level that a Pod violates: none for `privileged`; `restricted` includes `baseline`."""
    checks = {"privileged": (), "baseline": BASELINE, "restricted": (*BASELINE, *RESTRICTED)}[level]
    for rule, check in checks:
        yield from (PodSecurityViolation(rule, message) for message in check(pod))


def host_process(pod: PodTemplate) -> Iterator[str]:
    """Find Windows containers with the rights of a process of the node."""
    for where, context in _contexts(pod):
        if _is_set(mapping(context.get("windowsOptions")).get("hostProcess")):
            yield f"{where} sets windowsOptions.hostProcess"


def host_namespaces(pod: PodTemplate) -> Iterator[str]:
    """Find Pods in namespaces of the node."""
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if _is_set(pod.spec.get(field)):
            yield f"the Pod sets {field}"


def privileged_containers(pod: PodTemplate) -> Iterator[str]:
    """Find containers without isolation."""
    for where, context in _container_contexts(pod):
        if _is_set(context.get("privileged")):
            yield f"{where} is privileged"


def added_capabilities(pod: PodTemplate) -> Iterator[str]:
    """Find capabilities beyond those that container runtimes grant by default."""
    for where, context in _container_contexts(pod):
        for each in sequence(mapping(context.get("capabilities")).get("add")):
            if each not in _CAPABILITIES:
                yield f"{where} adds the capability {each}"


def host_path_volumes(pod: PodTemplate) -> Iterator[str]:
    """Find volumes that are folders of the node."""
    for volume in mappings(pod.spec.get("volumes")):
        if volume.get("hostPath") is not None:
            yield f"volume {volume.get('name')} is a hostPath"


def host_ports(pod: PodTemplate) -> Iterator[str]:
    """Find ports of the node."""
    for where, container in containers(pod):
        for port in mappings(container.get("ports")):
            if _is_set(port.get("hostPort")):
                yield f"{where} has the hostPort {port['hostPort']}"


def host_probes(pod: PodTemplate) -> Iterator[str]:
    """Find probes and hooks that send requests from the node to a host of their choice."""
    for where, container in containers(pod):
        hooks = mapping(container.get("lifecycle"))
        handlers = {each: container.get(each) for each in ("livenessProbe", "readinessProbe", "startupProbe")}
        for name, handler in (handlers | {f"lifecycle.{each}": hooks[each] for each in hooks}).items():
            for action in ("httpGet", "tcpSocket"):
                if _is_set(mapping(mapping(handler).get(action)).get("host")):
                    yield f"{where} sets {name}.{action}.host"


def app_armor_profiles(pod: PodTemplate) -> Iterator[str]:
    """Find AppArmor profiles that are switched off or unknown."""
    for where, context in _contexts(pod):
        profile = mapping(context.get("appArmorProfile")).get("type")
        if profile is not None and profile not in _PROFILES:
            yield f"{where} has the AppArmor profile {profile}"
    for name, value in pod.annotations.items():
        allowed = value in ("", "runtime/default") or str(value).startswith("localhost/")
        if str(name).startswith(_APPARMOR) and not allowed:
            yield f"the annotation {name} is {value}"


def se_linux_options(pod: PodTemplate) -> Iterator[str]:
    """Find SELinux users, roles, and types beyond those of containers."""
    for where, context in _contexts(pod):
        options = mapping(context.get("seLinuxOptions"))
        if (options.get("type") or "") not in _SELINUX_TYPES:
            yield f"{where} has the SELinux type {options['type']}"
        for field in ("user", "role"):
            if _is_set(options.get(field)):
                yield f"{where} has the SELinux {field} {options[field]}"


def proc_mounts(pod: PodTemplate) -> Iterator[str]:
    """Find containers that see all of /proc."""
    for where, context in _container_contexts(pod):
        if context.get("procMount") not in (None, "", "Default"):
            yield f"{where} has the procMount {context['procMount']}"


def unconfined_seccomp(pod: PodTemplate) -> Iterator[str]:
    """Find seccomp profiles that are switched off or unknown."""
    for where, context in _contexts(pod):
        profile = _seccomp(context)
        if profile is not None and profile not in _PROFILES:
            yield f"{where} has the seccomp profile {profile}"


def unsafe_sysctls(pod: PodTemplate) -> Iterator[str]:
    """Find sysctls that concern more than the Pod."""
    for each in mappings(mapping(pod.spec.get("securityContext")).get("sysctls")):
        if each.get("name") not in _SYSCTLS:
            yield f"the Pod sets the sysctl {each.get('name')}"


def volume_types(pod: PodTemplate) -> Iterator[str]:
    """Find volumes of other types than those for configuration, claims, and empty folders."""
    for volume in mappings(pod.spec.get("volumes")):
        for kind in sorted(volume.keys() - {"name"} - _VOLUMES, key=str):
            if kind != "hostPath":  # found by `host_path_volumes`
                yield f"volume {volume.get('name')} is of the type {kind}"


def privilege_escalation(pod: PodTemplate) -> Iterator[str]:
    """Find containers whose processes can gain privileges."""
    for where, context in () if _is_windows(pod) else _container_contexts(pod):
        if context.get("allowPrivilegeEscalation") is not False:
            yield f"{where} does not set allowPrivilegeEscalation to false"


def running_as_root(pod: PodTemplate) -> Iterator[str]:
    """Find containers that may run as root."""
    of_pod = mapping(pod.spec.get("securityContext"))
    for where, context in _container_contexts(pod):
        if context.get("runAsNonRoot", of_pod.get("runAsNonRoot")) is not True:
            yield f"{where} does not set runAsNonRoot to true"


def root_users(pod: PodTemplate) -> Iterator[str]:
    """Find the user id of root."""
    for where, context in _contexts(pod):
        if context.get("runAsUser") == 0:
            yield f"{where} sets runAsUser to 0"


def missing_seccomp(pod: PodTemplate) -> Iterator[str]:
    """Find containers without a seccomp profile."""
    of_pod = _seccomp(mapping(pod.spec.get("securityContext")))
    for where, context in () if _is_windows(pod) else _container_contexts(pod):
        if (_seccomp(context) or of_pod) is None:
            yield f"{where} has no seccomp profile"


def kept_capabilities(pod: PodTemplate) -> Iterator[str]:
    """Find containers that do not drop all capabilities, or add others than NET_BIND_SERVICE."""
    for where, context in () if _is_windows(pod) else _container_contexts(pod):
        capabilities = mapping(context.get("capabilities"))
        if "ALL" not in sequence(capabilities.get("drop")):
            yield f"{where} does not drop ALL capabilities"
        for each in sequence(capabilities.get("add")):
            if each in _CAPABILITIES and each != "NET_BIND_SERVICE":  # others are found by `added_capabilities`
                yield f"{where} adds the capability {each}"


BASELINE: tuple[tuple[str, Check], ...] = (
    ("HostProcess", host_process),
    ("Host Namespaces", host_namespaces),
    ("Privileged Containers", privileged_containers),
    ("Capabilities", added_capabilities),
    ("HostPath Volumes", host_path_volumes),
    ("Host Ports", host_ports),
    ("Host Probes / Lifecycle Hooks", host_probes),
    ("AppArmor", app_armor_profiles),
    ("SELinux", se_linux_options),
    ("/proc Mount Type", proc_mounts),
    ("Seccomp", unconfined_seccomp),
    ("Sysctls", unsafe_sysctls),
)
"""The rules of the level `baseline`, by their names in the Pod Security Standards."""
RESTRICTED: tuple[tuple[str, Check], ...] = (
    ("Volume Types", volume_types),
    ("Privilege Escalation", privilege_escalation),
    ("Running as Non-root", running_as_root),
    ("Running as Non-root user", root_users),
    ("Seccomp", missing_seccomp),
    ("Capabilities", kept_capabilities),
)
"""The rules that the level `restricted` has in addition."""


def containers(pod: PodTemplate) -> Iterator[tuple[str, Document]]:
    """Yield all containers of a Pod, each with its place for messages."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for each in mappings(pod.spec.get(field)):
            yield f"container {each.get('name')}", each


def mapping(value: Any) -> Document:
    """Return a value that should be a mapping; an empty one where it is not."""
    return value if isinstance(value, Mapping) else {}


def sequence(value: Any) -> list[Any]:
    """Return a value that should be a list; an empty one where it is not."""
    return value if isinstance(value, list) else []


def mappings(value: Any) -> Iterator[Document]:
    """Yield the mappings in a value that should be a list of them."""
    return (each for each in sequence(value) if isinstance(each, Mapping))


def _container_contexts(pod: PodTemplate) -> Iterator[tuple[str, Document]]:
    return ((where, mapping(each.get("securityContext"))) for where, each in containers(pod))


def _contexts(pod: PodTemplate) -> Iterator[tuple[str, Document]]:
    yield "the Pod", mapping(pod.spec.get("securityContext"))
    yield from _container_contexts(pod)


def _seccomp(context: Document) -> Any:
    return mapping(context.get("seccompProfile")).get("type")


def _is_set(value: Any) -> bool:
    return value not in (None, False, 0, "")


def _is_windows(pod: PodTemplate) -> bool:
    return mapping(pod.spec.get("os")).get("name") == "windows"
