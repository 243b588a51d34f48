"""Programs of published Go modules in the versions pinned here: each is built once, and cached."""

import os
from dataclasses import dataclass
from pathlib import Path

from kyma_local.cache import cache_root, locked
from kyma_local.claims import scratch_folder
from kyma_local.go_modules import GoModule, find_go
from kyma_local.progress import SILENT, Listener
from kyma_local.sources import install


@dataclass(frozen=True, slots=True, kw_only=True)
class GoProgram:
    """A program of a Go module; `version_variable` is the variable of its code that has its version, if any."""

    name: str
    module: str
    version: str
    version_variable: str = ""

    def find(self, listener: Listener = SILENT) -> Path:
        """Return the program, built if necessary. Two processes that need it at the same time build it once.

        Raises SourceFailed.
        """
        cache = cache_root() / f"{self.name}-{self.version}"
        program = cache / self.name
        if os.access(program, os.X_OK):
            return program
        cache.mkdir(parents=True, exist_ok=True)
        with locked(cache.with_name(f"{cache.name}.lock"), listener.doing):
            if not os.access(program, os.X_OK):
                self._build(cache, listener)
        return program

    def _build(self, target: Path, listener: Listener) -> None:
        with scratch_folder("fetching-", target.parent) as scratch:
            go = find_go(scratch, listener)
            package = f"{self.module}/cmd/{self.name}"
            module = GoModule(go, scratch / "module", {self.module: self.version}, (package,))
            listener.doing(f"{self.name} {self.version}: downloading its Go modules")
            module.prepare()
            listener.doing(f"{self.name} {self.version}: building, once")
            stamp = f" -X {self.version_variable}={self.version}" if self.version_variable else ""
            for built in module.build(f"-s -w{stamp}", listener.done):
                install(built, target)
