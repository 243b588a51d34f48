"""The three programs of the product, each a process of its own, with its log in a file."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kyma_local.ports import free_port
from kyma_local.processes import ChildProcess, start_child, tail


class ProcessEnded(Exception):
    """A program of the demo has ended by itself; its log says why."""

    def __init__(self, name: str, code: int, log: Path) -> None:
        super().__init__(f"{name} ended with exit code {code}; the end of its log {log}:\n{tail(log)}")


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run: its name in what people see, its command line and its own environment."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]


def lifecycle_manager(
    kubeconfig: Path,
    event_port: int,
    *,
    by_interval: bool,
    admission_port: int | None = None,
    name: str = "lifecycle-manager",
) -> Program:
    """The Lifecycle Manager, taking events on a loopback port, and the questions of KCP's API server on another.

    A second replica has another `name`. Where no events can come, because the cluster can't reach a process on this
    machine, it looks every second.
    """
    admission = ("--enable-webhooks", f"--webhook-bind-address=127.0.0.1:{admission_port}")
    intervals = ("--kyma-requeue-success-interval=1s", "--module-config-requeue-success-interval=1s")
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
            *(intervals if by_interval else ()),
            *(admission if admission_port is not None else ()),
        ),
        {},
    )


def skr_watcher(mount: Path, webhook_port: int, event_port: int) -> Program:
    """The Watcher, with its Secret mounted as a folder, as in its Pod."""
    return Program(
        "skr-watcher",
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
    """Start a program with its log in a file of its name; it ends with this process, however that ends.

    Its temporary files are beside the logs, so that one that is killed leaves nothing elsewhere.
    """
    temporary = logs.with_name("tmp")
    temporary.mkdir(mode=0o700, exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(temporary), **program.environment}
    return await start_child(program.name, program.command, logs / f"{program.name}.log", environment)


def _script(name: str) -> tuple[str, ...]:
    """Return the command of an entry point that is installed beside this interpreter."""
    return (str(Path(sys.executable).with_name(name)),)
