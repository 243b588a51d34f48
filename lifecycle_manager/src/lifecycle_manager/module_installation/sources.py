"""Where modules may come from: the options for registries, links and the cache of layers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from kyma_oci import AllowedHosts
from lifecycle_manager.contract.options import Texts, option


def _hosts(texts: tuple[str, ...]) -> tuple[str, ...]:
    AllowedHosts.of(texts)
    return texts


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """See the help of each option."""

    registry_host: str = option(
        "", "oci-registry-host", "registry of the component descriptors that ModuleTemplates leave empty"
    )
    registry_path: str = option("", "modules-repository-subpath", "path of the components in that registry")
    login_secret: str = option(
        "",
        "oci-registry-cred-secret",
        "Secret in kcp-system with credentials for registries, used if a Manifest selects none",
    )
    host_texts: Annotated[Texts, AfterValidator(_hosts)] = option(
        (),
        "allowed-source-hosts",
        "hosts of registries and links that modules may come from, such as registry.example.com:5000 or *.example.com, "
        "with those that they redirect to; default: any",
    )
    cache_folder: Path | None = option(
        None,
        "module-cache-dir",
        "folder in which layers are cached across restarts; default: a temporary folder",
    )

    @property
    def allowed_hosts(self) -> AllowedHosts:
        return AllowedHosts.of(self.host_texts)

    @property
    def component_base(self) -> str:
        """Where component descriptors are looked up: a registry with a path, "" for nowhere."""
        host, path = self.registry_host.rstrip("/"), self.registry_path.strip("/")
        return "/".join(filter(None, (host, path))) if host else ""
