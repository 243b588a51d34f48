"""Programs of published Go modules in the versions pinned here: each is built once, and cached."""

from dataclasses import dataclass
from pathlib import Path

from kyma_local.cache import cache_root, fetched
from kyma_local.go_modules import build_programs
from kyma_local.progress import SILENT, Listener


@dataclass(frozen=True, slots=True, kw_only=True)
class GoProgram:
    """A program of a Go module; `version_variable` is the variable of its code that has its version, if any."""

    name: str
    module: str
    version: str
    version_variable: str = ""

    def find(self, listener: Listener = SILENT) -> Path:
        """Return the program, built if necessary. Raises SourceFailed."""
        stamp = f" -X {self.version_variable}={self.version}" if self.version_variable else ""

        def build(target: Path) -> None:
            what, package = f"{self.name} {self.version}", f"{self.module}/cmd/{self.name}"
            build_programs(target, what, {self.module: self.version}, (package,), listener, ldflags=f"-s -w{stamp}")

        cache = cache_root() / f"{self.name}-{self.version}"
        return fetched(cache, (self.name,), build, listener.doing) / self.name
