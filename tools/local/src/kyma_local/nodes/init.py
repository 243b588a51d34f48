"""Process 1 of a node: mounts what its programs write to, starts them, and ends with the first that ends.

When it ends, the kernel ends every other process of the node, containers too, and removes their mounts and networks.
"""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

RUNTIME_SECONDS = 60.0
STATE = ("containerd", "kubelet", "cni")
# The kubelet insists on them, but they are the machine's. So it sees files with these values.
KERNEL_SETTINGS = {
    "kernel/keys/root_maxbytes": 25_000_000,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
}
READY = "ready"
IMPORT = ("ctr", "--namespace=k8s.io", "images", "import")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """The programs of the node with their arguments, the images for containerd, and the folder of logs.

    The kubelet starts when it has `first_images`, and `images` are loaded while the Pods of those start.
    """

    kubelet: tuple[str, ...]
    kube_proxy: tuple[str, ...]
    network_policies: tuple[str, ...]
    first_images: tuple[str, ...]
    images: tuple[str, ...]
    logs: str


class NodeFailed(Exception):
    """A program of the node has failed; the message says which, and how."""


def main() -> None:
    """Run the node whose settings are in a file. Raises NodeFailed."""
    path = Path(sys.argv[1])
    settings = msgspec.json.decode(path.read_bytes(), type=NodeSettings)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # process 1 has no default
    _mount(path.parent)
    logs = Path(settings.logs)
    programs = {_start("containerd", ("containerd", f"--config={path.parent / 'containerd.toml'}"), logs): "containerd"}
    _wait_for_runtime()
    for image in settings.first_images:
        _run(*IMPORT, image)
    commands = {
        "kubelet": settings.kubelet,
        "kube-proxy": settings.kube_proxy,
        "network-policies": settings.network_policies,
    }
    for name, command in commands.items():
        programs[_start(name, command, logs)] = name
    for image in settings.images:
        _run(*IMPORT, image)
    (path.parent / READY).touch()
    while True:
        process, status = os.wait()  # also of what has lost its parent
        if process in programs:
            code = os.waitstatus_to_exitcode(status)
            raise NodeFailed(f"{programs[process]} ended with code {code}; its log is in {logs}")


def _mount(folder: Path) -> None:
    """Give the node folders of its own where its programs expect them."""
    for path in ("/run", "/var/lib"):
        _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", path)
    for name in STATE:
        _bind(folder / "state" / name, Path("/var/lib", name))
    _bind(folder / "state" / "log", Path("/var/log"))
    for number, (setting, value) in enumerate(KERNEL_SETTINGS.items()):
        played = Path(f"/run/kernel-setting-{number}")
        played.write_text(f"{value}\n")
        _run("mount", "--bind", str(played), f"/proc/sys/{setting}")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _bind(source: Path, target: Path) -> None:
    source.mkdir(parents=True, exist_ok=True)
    target.mkdir(parents=True, exist_ok=True)
    _run("mount", "--bind", str(source), str(target))


def _start(name: str, command: tuple[str, ...], logs: Path) -> int:
    with (logs / f"{name}.log").open("ab") as output:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output).pid  # noqa: S603


def _wait_for_runtime() -> None:
    deadline = time.monotonic() + RUNTIME_SECONDS
    while subprocess.run(["ctr", "version"], capture_output=True, check=False).returncode:  # noqa: S607
        if time.monotonic() > deadline:
            raise NodeFailed(f"containerd did not answer within {RUNTIME_SECONDS:g} s")
        time.sleep(0.1)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise NodeFailed(f"{' '.join(command)}: {done.stderr.strip()}")


if __name__ == "__main__":
    main()
