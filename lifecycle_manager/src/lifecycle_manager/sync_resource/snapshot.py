"""What a reconcile of a SyncResource knows: read once at its beginning, then with the outcome of each step."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache

from kube_runtime import ApplyResult, InventoryEntry, KubernetesObject, ManifestInvalid, parse_objects
from lifecycle_manager.contract.verdict import INVALID_RESOURCE
from lifecycle_manager.object_set.inventory import Identity, united
from lifecycle_manager.object_set.ownership import Claim
from lifecycle_manager.sync_resource.intent import inventory_of
from lifecycle_manager.sync_resource.status import Refusal
from lifecycle_manager_api import Kyma, SyncResource, names
from lifecycle_manager_api.policy_checks import ModuleRules, Scopes

MAX_CACHED_TEXT = 64 * 1024
_BEGINNING = datetime.min.replace(tzinfo=UTC)

Text = tuple[KubernetesObject, ...] | Refusal
"""The objects of a text, or why it is not to be applied."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One SyncResource with all that its plan depends on.

    - `inventory`: what is in the SKR because of it or may be: by its own record, and by the memory of this process
    - `claims`: what other SyncResources of the Kyma have of the objects in the text
    - `rules`: what the module may have; `scopes` are those of the kinds in the text, as the SKR has stated them
    - `pull_secret`: the name of the image pull Secret, which no module may have
    - `announced`: the objects that events reported, where only these are to be read; None where all are
    - `module_namespace`: the namespace in KCP that the module has by its ModulePolicy
    - `recorded`: whether finalizer and intent are written; `too_many` says why the intent can't be, and `protected`
      are objects of the text, as the SKR resolves them, that may not be applied
    - `applied`, `removed`: the results of steps; `applied` with those of pruning once `pruned`
    - `cluster_gone`: the access Secret is gone, so the cluster is deleted
    """

    resource: SyncResource
    kyma: Kyma | None
    now: datetime
    inventory: tuple[InventoryEntry, ...] = ()
    text: Text = ()
    rules: ModuleRules = field(default_factory=lambda: ModuleRules(""))
    scopes: Scopes | None = None
    claims: tuple[Claim, ...] = ()
    interval_seconds: float = 120.0
    pull_secret: str = ""
    announced: frozenset[Identity] | None = None
    module_namespace: str = names.KCP_NAMESPACE
    recorded: bool = False
    too_many: str = ""
    protected: tuple[InventoryEntry, ...] = ()
    applied: ApplyResult | None = None
    pruned: bool = False
    removed: ApplyResult | None = None
    cluster_gone: bool = False

    @property
    def is_misplaced(self) -> bool:
        """Whether the SyncResource is not in the namespace of its module, so that it has no effect."""
        return self.resource.metadata.namespace != self.module_namespace


def known_inventory(resource: SyncResource, remembered: tuple[InventoryEntry, ...]) -> tuple[InventoryEntry, ...]:
    """Return the inventory by the record of a SyncResource and the memory of this process."""
    return united(inventory_of(resource), remembered)


def read_text(text: str) -> Text:
    """Return the objects in a SyncResource's text, or why it is not to be applied."""
    try:
        return _parsed(text) if len(text) <= MAX_CACHED_TEXT else parse_objects(text)
    except ManifestInvalid as error:
        return Refusal(INVALID_RESOURCE, str(error))


def since(resource: SyncResource) -> tuple[str, str]:
    """Return what orders SyncResources by age: time of creation, then namespace and name."""
    metadata = resource.metadata
    return (metadata.creation_timestamp or _BEGINNING).isoformat(), f"{metadata.namespace}/{metadata.name}"


@lru_cache(maxsize=64)
def _parsed(text: str) -> tuple[KubernetesObject, ...]:
    """Return the objects in a text: read at admission, and again a moment later by the reconcile."""
    return parse_objects(text)
