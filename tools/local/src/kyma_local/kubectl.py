"""kubectl of this machine; where there is none, that of an official release, or a build from its Go module."""

import shlex
import shutil
from pathlib import Path

from kyma_local.cache import cache_root, fetched
from kyma_local.downloads import VerifiedDownloads
from kyma_local.go_build import build_kubernetes
from kyma_local.platforms import Platform
from kyma_local.progress import SILENT, Listener
from kyma_local.release_downloads import download_kubernetes_program
from kyma_local.sources import KUBERNETES, SourceFailed, install

NAME = "kubectl"


def kubectl_command(kubeconfig: Path) -> str:
    """Return how to call kubectl in a shell here: as itself, or through klm, which fetches it."""
    return f"{NAME if shutil.which(NAME) else 'klm local kubectl'} --kubeconfig {shlex.quote(str(kubeconfig))}"


def find_kubectl(listener: Listener = SILENT) -> Path:
    """Return the program: of PATH, of the cache, downloaded, or built. Raises SourceFailed."""
    if found := shutil.which(NAME):
        return Path(found)
    cache = cache_root() / f"{NAME}-{KUBERNETES}"
    return fetched(cache, (NAME,), lambda target: _fetch(target, listener), listener.doing) / NAME


def _fetch(target: Path, listener: Listener) -> None:
    try:
        with VerifiedDownloads.into(target.parent, listener) as downloads:
            program = download_kubernetes_program(NAME, KUBERNETES, downloads, platform=Platform.current())
        install(program, target)
    except SourceFailed as error:
        listener.doing(f"official releases: {error}")
        build_kubernetes(target, (NAME,), KUBERNETES, listener)
