"""Runs a command in a root file system: with its programs and libraries, and with the files of this machine.

So the interpreter of a base installs what it will run, whatever Python this machine has. The mounts are in a namespace
that ends with the command; root is needed, or a kernel that lets other users create user namespaces.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

SCRIPT = """
root=$1; shift
for folder in /*; do
  case $folder in /usr | /bin | /sbin | /lib* | /opt) continue ;; esac
  if [ -d "$folder" ] && [ ! -L "$folder" ]; then mkdir -p "$root$folder"; mount --rbind "$folder" "$root$folder"; fi
done
exec chroot "$root" env -C "$PWD" "$@"
"""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def unpack(archive: Path, root: Path) -> Path:
    """Unpack an archive into a folder, without devices, as root with owners. Raises CalledProcessError."""
    root.mkdir(parents=True, exist_ok=True)
    options = ("--numeric-owner", "--exclude=./dev/*", f"--file={archive}", f"--directory={root}")
    subprocess.run(["tar", "--extract", *options], check=True)
    return root


def run_within(
    root: Path, *command: str, folder: Path, environment: Mapping[str, str], capture: bool = True
) -> "subprocess.CompletedProcess[str]":
    """Run a command in a root file system, from a folder of this machine."""
    user = () if os.geteuid() == 0 else ("--map-root-user",)
    return subprocess.run(
        ["unshare", "--mount", *user, "sh", "-ec", SCRIPT, "sh", str(root), *command],
        cwd=folder,
        env={**os.environ, "PATH": PATH, **environment},
        capture_output=capture,
        text=True,
        check=False,
    )
