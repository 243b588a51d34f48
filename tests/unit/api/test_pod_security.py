"""The rules of the Pod Security Standards, each with a Pod that violates it alone."""

from typing import Any

import pytest

from lifecycle_manager_api.pod_security import PodTemplate, pod_template_of, violated_rules

HARDENED = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
    "capabilities": {"drop": ["ALL"]},
}


def rules_of(pod: dict[str, Any], level: str, **annotations: str) -> set[str]:
    return {each.rule for each in violated_rules(PodTemplate(pod, annotations), level)}


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "a", **fields}]}


def context(**fields: Any) -> dict[str, Any]:
    return container(securityContext=fields)


@pytest.mark.parametrize(
    ("rule", "pod"),
    [
        ("HostProcess", {"securityContext": {"windowsOptions": {"hostProcess": True}}}),
        ("HostProcess", context(windowsOptions={"hostProcess": True})),
        ("Host Namespaces", {"hostNetwork": True}),
        ("Host Namespaces", {"hostPID": True}),
        ("Host Namespaces", {"hostIPC": True}),
        ("Privileged Containers", context(privileged=True)),
        ("Privileged Containers", {"initContainers": [{"securityContext": {"privileged": True}}]}),
        ("Privileged Containers", {"ephemeralContainers": [{"securityContext": {"privileged": True}}]}),
        ("Capabilities", context(capabilities={"add": ["SYS_ADMIN"]})),
        ("Capabilities", context(capabilities={"add": ["CHOWN", "NET_RAW"]})),
        ("HostPath Volumes", {"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}),
        ("Host Ports", container(ports=[{"containerPort": 80, "hostPort": 80}])),
        ("Host Probes / Lifecycle Hooks", container(livenessProbe={"httpGet": {"host": "10.0.0.1", "port": 80}})),
        ("Host Probes / Lifecycle Hooks", container(lifecycle={"preStop": {"tcpSocket": {"host": "a", "port": 1}}})),
        ("AppArmor", context(appArmorProfile={"type": "Unconfined"})),
        ("SELinux", context(seLinuxOptions={"type": "spc_t"})),
        ("SELinux", {"securityContext": {"seLinuxOptions": {"user": "system_u"}}}),
        ("SELinux", context(seLinuxOptions={"role": "sysadm_r"})),
        ("/proc Mount Type", context(procMount="Unmasked")),
        ("Seccomp", context(seccompProfile={"type": "Unconfined"})),
        ("Sysctls", {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}),
    ],
)
def test_baseline_refuses(rule: str, pod: dict[str, Any]) -> None:
    assert rules_of(pod, "baseline") == {rule}
    assert rule in rules_of(pod, "restricted")
    assert rules_of(pod, "privileged") == set()


def test_baseline_refuses_app_armor_switched_off_by_an_annotation() -> None:
    name = "container.apparmor.security.beta.kubernetes.io/a"
    assert rules_of({}, "baseline", **{name: "unconfined"}) == {"AppArmor"}
    assert rules_of({}, "baseline", **{name: "localhost/mine"}) == set()


@pytest.mark.parametrize(
    "pod",
    [
        {},
        container(image="a", ports=[{"containerPort": 80}]),
        context(
            capabilities={"add": ["NET_BIND_SERVICE"]}, procMount="Default", seLinuxOptions={"type": "container_t"}
        ),
        {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]}},
        {"hostNetwork": False, "volumes": [{"name": "a", "nfs": {"server": "a", "path": "/"}}]},
        container(livenessProbe={"httpGet": {"port": 80}}),
    ],
)
def test_baseline_allows(pod: dict[str, Any]) -> None:
    assert rules_of(pod, "baseline") == set()


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("Privilege Escalation", {"allowPrivilegeEscalation": None}),
        ("Running as Non-root", {"runAsNonRoot": False}),
        ("Running as Non-root user", {"runAsUser": 0}),
        ("Seccomp", {"seccompProfile": None}),
        ("Capabilities", {"capabilities": {"drop": ["NET_RAW"]}}),
        ("Capabilities", {"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}),
    ],
)
def test_restricted_refuses(rule: str, change: dict[str, Any]) -> None:
    assert rules_of(context(**HARDENED), "restricted") == set()
    assert rules_of(context(**HARDENED | change), "restricted") == {rule}
    assert rules_of(context(**HARDENED | change), "baseline") == set()


def test_restricted_refuses_volumes_of_other_types() -> None:
    volumes = [{"name": "a", "nfs": {"server": "a", "path": "/"}}, {"name": "b", "emptyDir": {}}]
    assert rules_of({"volumes": volumes}, "restricted") == {"Volume Types"}


def test_restricted_takes_settings_of_the_pod_for_its_containers() -> None:
    own = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    of_pod = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert rules_of({"securityContext": of_pod, **context(**own)}, "restricted") == set()


@pytest.mark.parametrize(
    ("group", "kind", "path"),
    [
        ("", "Pod", ()),
        ("", "PodTemplate", ("template",)),
        ("", "ReplicationController", ("spec", "template")),
        ("apps", "Deployment", ("spec", "template")),
        ("apps", "StatefulSet", ("spec", "template")),
        ("apps", "DaemonSet", ("spec", "template")),
        ("apps", "ReplicaSet", ("spec", "template")),
        ("batch", "Job", ("spec", "template")),
        ("batch", "CronJob", ("spec", "jobTemplate", "spec", "template")),
    ],
)
def test_pods_are_found_in_all_kinds_that_have_them(group: str, kind: str, path: tuple[str, ...]) -> None:
    document: dict[str, Any] = {"metadata": {"annotations": {"a": "b"}}, "spec": {"hostPID": True}}
    for step in reversed(path):
        document = {step: document}

    pod = pod_template_of(group, kind, document)

    assert pod is not None
    assert rules_of(dict(pod.spec), "baseline") == {"Host Namespaces"}
    assert pod.annotations == {"a": "b"}
    assert pod_template_of(group, "Service", document) is None
    assert pod_template_of(group, kind, {"spec": "text"}) is not None


@pytest.mark.parametrize("odd", ["x", 7, ["x"], {"x": 1}, None, [[]], True])
def test_values_of_wrong_types_never_raise(odd: Any) -> None:
    fields = ("securityContext", "volumes", "containers", "initContainers", "hostNetwork", "os")
    inner = ("securityContext", "ports", "lifecycle", "livenessProbe")
    for pod in (*({each: odd} for each in fields), *(container(**{each: odd}) for each in inner)):
        rules_of(pod, "restricted")
    for each in ("capabilities", "seccompProfile", "seLinuxOptions", "windowsOptions", "appArmorProfile", "procMount"):
        rules_of(context(**{each: odd}), "restricted")
