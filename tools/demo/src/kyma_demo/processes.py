"""The three programs, each as its own process with a log file."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kyma_local.ports import free_port
from kyma_local.processes import ChildProcess, start_child


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run: its displayed name, command line and additional environment."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]


def lifecycle_manager(
    kubeconfig: Path,
    event_port: int,
    *,
    by_interval: bool,
    admission_port: int | None = None,
    page_port: int | None = None,
    name: str = "lifecycle-manager",
) -> Program:
    """The Lifecycle Manager, with its event endpoint, admission webhooks and fleet page on loopback ports.

    A second replica has another `name`. `by_interval`: the cluster cannot send events to this machine, so the Lifecycle
    Manager polls every second.
    """
    admission = ("--enable-webhooks", f"--webhook-bind-address=127.0.0.1:{admission_port}")
    intervals = ("--kyma-requeue-success-interval=1s",)
    page = (f"--ui-bind-address=127.0.0.1:{page_port}",)
    address = f"127.0.0.1:{event_port}"
    replica_address = f"127.0.0.1:{free_port()}"
    return Program(
        name,
        (
            *_script("klm"),
            "run",
            f"--kubeconfig={kubeconfig}",
            f"--kyma-skr-listener-bind-address={address}",
            f"--event-address={address}",
            "--metrics-bind-address=127.0.0.1:0",
            "--health-probe-bind-address=127.0.0.1:0",
            f"--replica-name={name}",
            f"--replica-bind-address={replica_address}",
            f"--replica-address={replica_address}",
            "--log-format=json",
            "--access-secret-grace=3s",  # nobody waits five minutes for a cluster that was removed from the demo
            *(intervals if by_interval else ()),
            *(admission if admission_port is not None else ()),
            *(page if page_port is not None else ()),
        ),
        {},
    )


def lifecycle_manager_of_simulation(kubeconfig: Path, page_port: int, event_port: int) -> Program:
    """The Lifecycle Manager for simulated clusters, which speak plain HTTP, know no rights and run no Watchers."""
    address, replica_address = f"127.0.0.1:{event_port}", f"127.0.0.1:{free_port()}"
    return Program(
        "lifecycle-manager",
        (
            *_script("klm"),
            "run",
            f"--kubeconfig={kubeconfig}",
            f"--kyma-skr-listener-bind-address={address}",
            f"--event-address={address}",
            "--metrics-bind-address=127.0.0.1:0",
            "--health-probe-bind-address=127.0.0.1:0",
            f"--replica-bind-address={replica_address}",
            f"--replica-address={replica_address}",
            f"--ui-bind-address=127.0.0.1:{page_port}",
            "--allow-insecure-kubeconfigs",
            "--allow-unprotected-modules",
            "--manifest-requeue-busy-interval=500ms",
            "--watcher-silence=1h",
            "--watcher-canary-interval=1h",
            "--watcher-canary-timeout=1h",
            "--k8s-client-qps=10000",
            "--log-format=json",
        ),
        {},
    )


def skr_watcher(mount: Path, webhook_port: int, event_port: int, *, name: str = "skr-watcher") -> Program:
    """The Watcher, with its Secret mounted as files, as in its Pod. That of a second cluster has another `name`."""
    return Program(
        name,
        _script("skr-watcher"),
        {
            "WEBHOOK_HOST": "127.0.0.1",
            "WEBHOOK_PORT": str(webhook_port),
            "METRICS_HOST": "127.0.0.1",
            "METRICS_PORT": "0",
            "TLS_CERT": str(mount / "tls.crt"),
            "TLS_KEY": str(mount / "tls.key"),
            "CA_CERT": str(mount / "ca.crt"),
            "KCP_ADDR": f"127.0.0.1:{event_port}",
            "KCP_CONTRACT": "v2",
        },
    )


def module_manager(kubeconfig: Path) -> Program:
    """The sample Module Manager for cloud resources."""
    return Program(
        "module-manager",
        (
            *_script("kyma-module-manager"),
            "run",
            "kyma_module_manager.samples.cloud_resources:objects",
            f"--kubeconfig={kubeconfig}",
            "--health-address=127.0.0.1:0",
        ),
        {},
    )


async def start(program: Program, logs: Path) -> ChildProcess:
    """Start a program with a log file of its name; it ends with this process, however that ends.

    Its temporary files are beside the logs, so that a killed program leaves no files elsewhere.
    """
    temporary = logs.with_name("tmp")
    temporary.mkdir(mode=0o700, exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(temporary), **program.environment}
    return await start_child(program.name, program.command, logs / f"{program.name}.log", environment)


def _script(name: str) -> tuple[str, ...]:
    """Return the path of a console script in this venv."""
    return (str(Path(sys.executable).with_name(name)),)
