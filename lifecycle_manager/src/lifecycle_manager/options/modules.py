"""Manifests, where modules may come from, and whether they are kept apart."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field

from lifecycle_manager.options.clusters import BrakeSettings
from lifecycle_manager.options.model import DomainSettings
from lifecycle_manager.options.shared import Concurrency, LeaseNamespace, ObjectsInterval, PullSecret, SyncNamespace
from lifecycle_manager.options.types import Seconds, Texts
from lifecycle_manager_api import names

if TYPE_CHECKING:
    from kyma_oci import AllowedHosts

DEPLOYER = "deployer"
"""The only module whose Secrets get data of KCP."""


class Options(DomainSettings):
    """The options that the plan depends on.

    `namespace` is that of default Module CRs and objects that name none; `pull_secret` is the name of the image pull
    Secret.
    """

    interval_seconds: ObjectsInterval = 600.0
    busy_seconds: Seconds = Field(
        default=2.0,
        validation_alias="manifest-requeue-busy-interval",
        description="interval at which a Manifest is reconciled that is being installed or removed",
    )
    namespace: SyncNamespace = names.SKR_NAMESPACE
    pull_secret: PullSecret = ""
    brake: BrakeSettings = BrakeSettings()


class ManifestSettings(Options):
    """Options of this controller. `restricted`: the defaults of a ModulePolicy apply to modules without one.

    `injects_data`: Secrets of the module DEPLOYER get data of KCP.
    """

    concurrency: Concurrency = 50
    default_policy: Literal["unrestricted", "restricted"] = Field(
        default="unrestricted",
        validation_alias="default-module-policy",
        description="what Manifests of modules without a ModulePolicy may contain: everything, or what the defaults "
        "of a ModulePolicy allow, as is always the case for SyncResources",
    )
    restricted_modules: Texts = Field(
        default=(),
        validation_alias="restricted-default-modules",
        description="modules for those Kymas alone that the kymaSelector of their ModuleReleaseMeta matches; without "
        "a selector nobody may have them",
    )

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


class SourceSettings(DomainSettings):
    """See the help of each option."""

    registry_host: str = Field(
        default="",
        validation_alias="oci-registry-host",
        description="registry of the component descriptors that ModuleTemplates leave empty",
    )
    registry_path: str = Field(
        default="", validation_alias="modules-repository-subpath", description="path of the components in that registry"
    )
    login_secret: str = Field(
        default="",
        validation_alias="oci-registry-cred-secret",
        description="Secret in kcp-system with credentials for registries, used if a Manifest selects none",
    )
    host_texts: Annotated[Texts, AfterValidator(_hosts)] = Field(
        default=(),
        validation_alias="allowed-source-hosts",
        description="hosts of registries and links that modules may come from, such as registry.example.com:5000 or "
        "*.example.com, with those that they redirect to; default: any",
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


class ModuleAuthorizationSettings(DomainSettings):
    """Where the policy is tried, in the namespace of the Leases; and whether this replica may be ready without it."""

    namespace: LeaseNamespace = names.KCP_LEASE_NAMESPACE
    is_optional: bool = Field(
        default=False,
        validation_alias="allow-unprotected-modules",
        description="be ready although the admission policy is not in force without which every module may write for "
        "every other (docs/trust.md)",
    )
