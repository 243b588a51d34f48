"""A container's description becomes a process of this machine: its program, folders and ports."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.node_agent.containers import ImageUnknown, Process, image_of, process_of

TLS, TMP = Path("/here/tls"), Path("/here/tmp")


def process(mounts: dict[str, Path] | None = None, **container: Any) -> Process:
    described = {"name": "c", "image": "registry.example.com:5000/kyma/lifecycle-manager:1", **container}
    pod = {"metadata": {"name": "pod-1", "namespace": "here"}, "spec": {"containers": [described]}}
    numbers = itertools.count(20001)
    return process_of(pod, mounts or {}, lambda: next(numbers))


def test_command_of_the_pod_comes_before_that_of_the_image() -> None:
    assert Path(process(args=["run"]).command[0]).name == "klm"
    assert Path(process(command=["kyma-module-manager"]).command[0]).name == "kyma-module-manager"


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


def test_fields_of_the_pod_are_known_in_the_environment() -> None:
    env = [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    assert process(env=env).environment == {"POD_NAME": "pod-1"}


@pytest.mark.parametrize("reference", ["nginx:1", "registry.example.com/lifecycle-manager-of-others@sha256:0"])
def test_image_that_nobody_knows_is_refused(reference: str) -> None:
    with pytest.raises(ImageUnknown, match="lifecycle-manager"):
        image_of(reference)
