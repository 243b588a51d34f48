"""The options of Manifests, and where modules may come from."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from lifecycle_manager.contract.options import (
    After,
    Count,
    Namespace,
    Seconds,
    SecretName,
    Texts,
    concurrency_option,
    objects_interval_option,
    option,
    pull_secret_option,
    restricted_modules_option,
    sync_namespace_option,
)
from lifecycle_manager.skr.settings import BrakeSettings

if TYPE_CHECKING:
    from kyma_oci import AllowedHosts

DEPLOYER = "deployer"
"""The only module whose Secrets get data of KCP."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options that the plan depends on.

    `namespace` is that of default Module CRs and objects that name none; `pull_secret` is the name of the image pull
    Secret.
    """

    interval_seconds: Seconds = objects_interval_option(600.0)
    busy_seconds: Seconds = option(
        2.0,
        "manifest-requeue-busy-interval",
        "interval at which a Manifest is reconciled that is being installed or removed",
    )
    namespace: Namespace = sync_namespace_option()
    pull_secret: SecretName = pull_secret_option()
    brake: BrakeSettings = field(default_factory=BrakeSettings)


@dataclass(frozen=True, slots=True)
class ManifestSettings(Options):
    """Options of this controller. `restricted`: the defaults of a ModulePolicy apply to modules without one.

    `injects_data`: Secrets of the module DEPLOYER get data of KCP.
    """

    concurrency: Count = concurrency_option()
    default_policy: Literal["unrestricted", "restricted"] = option(
        "unrestricted",
        "default-module-policy",
        "what Manifests of modules without a ModulePolicy may contain: everything, or what the defaults of a "
        "ModulePolicy allow, as is always the case for SyncResources",
    )
    restricted_modules: Texts = restricted_modules_option()

    @property
    def restricted(self) -> bool:
        """Whether the defaults of a ModulePolicy apply to modules without one."""
        return self.default_policy == "restricted"

    @property
    def injects_data(self) -> bool:
        """Whether Secrets of the module DEPLOYER get data of KCP."""
        return DEPLOYER in self.restricted_modules


def _hosts(texts: tuple[str, ...]) -> tuple[str, ...]:
    from kyma_oci import AllowedHosts  # the options are read without it

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
    host_texts: Annotated[Texts, After(_hosts)] = option(
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
    def allowed_hosts(self) -> "AllowedHosts":
        from kyma_oci import AllowedHosts

        return AllowedHosts.of(self.host_texts)

    @property
    def component_base(self) -> str:
        """Where component descriptors are looked up: a registry with a path, "" for nowhere."""
        host, path = self.registry_host.rstrip("/"), self.registry_path.strip("/")
        return "/".join(filter(None, (host, path))) if host else ""
