"""A container's description becomes a process of this machine: its program, folders and ports."""

import itertools
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.node_agent.containers import ImageUnknown, Process, image_of, process_of
from tests.node_agent.environment import FieldUnknown

TLS, TMP = Path("/here/tls"), Path("/here/tmp")


def process(mounts: dict[str, Path] | None = None, first_port: int = 20001, **container: Any) -> Process:
    described = {"name": "c", "image": "registry.example.com:5000/kyma/lifecycle-manager:1", **container}
    labels = {"app.kubernetes.io/name": "manager"}
    pod = {
        "metadata": {"name": "pod-1", "namespace": "here", "uid": "0-1", "labels": labels},
        "spec": {"serviceAccountName": "account", "containers": [described]},
    }
    numbers = itertools.count(first_port)
    return process_of(pod, mounts or {}, lambda: next(numbers))


def test_command_of_the_pod_comes_before_that_of_the_image() -> None:
    assert Path(process(args=["run"]).command[0]).name == "klm"
    assert Path(process(command=["kyma-module-manager"]).command[0]).name == "kyma-module-manager"


def test_tag_of_the_image_chooses_a_version_of_the_programs() -> None:
    containers = [{"name": "c", "image": f"registry.example.com:5000/skr-watcher:{tag}"} for tag in ("1", "2")]
    pods = [{"metadata": {"name": "pod-1"}, "spec": {"containers": [each]}} for each in containers]
    one, two = [process_of(pod, {}, lambda: 20001, {"1": Path("/versions/1")}) for pod in pods]
    assert one.command == ("/versions/1/skr-watcher",)
    assert two.command == (str(Path(sys.executable).with_name("skr-watcher")),)


def test_ports_become_free_ones_wherever_they_are_listened_on() -> None:
    it = process(
        args=["--metrics-bind-address=:8080", "--event-address=kcp.example.com:8080", "--other=:9999"],
        env=[{"name": "PORT", "value": "8080"}, {"name": "SECONDS", "value": "30"}],
        ports=[{"name": "metrics", "containerPort": 8080}],
    )
    assert it.command[1:] == (
        "--metrics-bind-address=127.0.0.1:20001",
        "--event-address=kcp.example.com:8080",
        "--other=:9999",
    )
    assert it.environment == {"PORT": "20001", "SECONDS": "30"}
    assert it.port("metrics") == it.port(8080) == 20001
    assert it.port("webhook") is None


def test_mounts_become_folders_and_paths_that_only_begin_alike_do_not() -> None:
    it = process(
        {"/tls": TLS, "/tmp": TMP},  # noqa: S108 - where the container has it
        args=["--certificate=/tls/tls.crt", "--other=/tls-of-others/tls.crt"],
        env=[{"name": "TLS_KEY", "value": "/tls/tls.key"}],
    )
    assert it.command[1:] == (f"--certificate={TLS}/tls.crt", "--other=/tls-of-others/tls.crt")
    assert it.environment == {"TLS_KEY": f"{TLS}/tls.key", "TMPDIR": str(TMP)}


def test_address_that_a_pod_announces_is_where_it_listens_and_is_its_own() -> None:
    described: dict[str, Any] = {
        "args": ["--replica-bind-address=:8443", "--replica-address=$(POD_IP):8443"],
        "env": [
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "REPLICA_URL", "value": "https://$(POD_IP):8443/events"},
        ],
        "ports": [{"name": "replicas", "containerPort": 8443}],
    }
    first, second = process(**described), process(first_port=20501, **described)
    assert first.command[1:] == ("--replica-bind-address=127.0.0.1:20001", "--replica-address=127.0.0.1:20001")
    assert first.environment == {"POD_IP": "127.0.0.1", "REPLICA_URL": "https://127.0.0.1:20001/events"}
    assert second.command[2] == "--replica-address=127.0.0.1:20501"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "pod-1"),
        ("metadata.namespace", "here"),
        ("metadata.uid", "0-1"),
        ("metadata.labels['app.kubernetes.io/name']", "manager"),
        ("metadata.annotations['none']", ""),
        ("spec.serviceAccountName", "account"),
        ("spec.nodeName", "local"),
        ("status.podIP", "127.0.0.1"),
        ("status.hostIP", "127.0.0.1"),
    ],
)
def test_fields_of_the_pod_are_known_in_the_environment(path: str, value: str) -> None:
    it = process(env=[{"name": "IT", "valueFrom": {"fieldRef": {"fieldPath": path}}}])
    assert it.environment == {"IT": value}


@pytest.mark.parametrize(
    "source", [{"fieldRef": {"fieldPath": "status.phase.of.moon"}}, {"secretKeyRef": {"name": "s", "key": "k"}}]
)
def test_variable_that_nothing_is_known_of_is_refused(source: dict[str, Any]) -> None:
    with pytest.raises(FieldUnknown):
        process(env=[{"name": "IT", "valueFrom": source}])


def test_variables_are_put_in_where_they_are_named_and_nowhere_else() -> None:
    it = process(
        command=["klm", "$(MODE)"],
        args=["--name=$(POD)-$(POD)", "$$(POD)", "$(UNKNOWN)", "$POD", "$(LATER)"],
        env=[
            {"name": "POD", "value": "p"},
            {"name": "MODE", "value": "$(POD)$(LATER)"},
            {"name": "LATER", "value": "l"},
        ],
    )
    assert it.command[1:] == ("p$(LATER)", "--name=p-p", "$(POD)", "$(UNKNOWN)", "$POD", "l")


@pytest.mark.parametrize("reference", ["nginx:1", "registry.example.com/lifecycle-manager-of-others@sha256:0"])
def test_image_that_nobody_knows_is_refused(reference: str) -> None:
    with pytest.raises(ImageUnknown, match="lifecycle-manager"):
        image_of(reference)
