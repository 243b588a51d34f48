"""Container engines, where there is one: they load the images, and provide a base that is in a registry."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


class EngineFailed(Exception):
    """A command of the container engine failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A container engine: podman or docker, which have the same commands, or buildah."""

    program: str

    @property
    def name(self) -> str:
        """Its name."""
        return Path(self.program).name

    def load(self, image: Path) -> None:
        """Load an image from its archive. Raises EngineFailed."""
        if self.name == "buildah":
            self._run("pull", "--quiet", f"oci-archive:{image}")
        else:
            self._run("load", "--input", str(image))

    def export_root(self, reference: str, target: Path) -> None:
        """Write the root file system of an image, pulled if necessary, to an archive. Raises EngineFailed."""
        if self.name == "buildah":
            container = self._run("from", reference)
            command = ["tar", "--create", f"--file={target}", f"--directory={self._run('mount', container)}", "."]
        else:
            container = self._run("create", reference)
            command = [self.program, "export", f"--output={target}", container]
        try:
            _output(command)
        finally:
            self._run("rm", container)

    def _run(self, *arguments: str) -> str:
        return _output([self.program, *arguments])


def find_engine() -> Engine | None:
    """Return the first container engine that runs."""
    for name in ("podman", "docker", "buildah"):
        program = shutil.which(name)
        if program is not None and not subprocess.run([program, "info"], capture_output=True, check=False).returncode:
            return Engine(program=program)
    return None


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EngineFailed(f"{' '.join(command)}: {done.stderr.strip()[-2000:]}")
    return done.stdout.strip()
