"""What a reconcile of a SyncResource knows: read once at its beginning, then with the outcome of each step."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache

from kube_runtime import ApplyResult, InventoryEntry, KubernetesObject, ManifestInvalid, parse_objects
from lifecycle_manager.contract.verdict import INVALID_RESOURCE, belongs_to, config_of
from lifecycle_manager.module_namespaces import Assignment, Standing, is_applied
from lifecycle_manager.object_set.inventory import Identity, united
from lifecycle_manager.object_set.ownership import Claim
from lifecycle_manager.sync_resource.intent import inventory_of
from lifecycle_manager.sync_resource.status import Refusal
from lifecycle_manager_api import Kyma, ModuleConfig, SyncResource, names
from lifecycle_manager_api.policy_checks import ModuleRules, Scopes

MAX_CACHED_TEXT = 64 * 1024
_BEGINNING = datetime.min.replace(tzinfo=UTC)

Text = tuple[KubernetesObject, ...] | Refusal
"""The objects of a text, or why it is not to be applied."""


@dataclass(frozen=True, slots=True)
class Placement:
    """What the namespace of a SyncResource is to its module, and which one the module has."""

    standing: Standing = Standing.CURRENT
    wanted: str = names.KCP_NAMESPACE
    is_deleted: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One SyncResource with all that its plan depends on.

    - `inventory`: what is in the SKR because of it or may be: by its own record, and by the memory of this process
    - `claims`: what other SyncResources of the Kyma have of the objects in the text
    - `rules`: what the module may have; `scopes` are those of the kinds in the text, as the SKR has stated them
    - `pull_secret`: the name of the image pull Secret, which no module may have
    - `announced`: the objects that events reported, where only these are to be read; None where all are
    - `placement`: what its namespace is to its module
    - `unserved`: the ModuleConfigs in the present namespace of the module, where it has left this one, for which no
      SyncResource is applied there
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
    placement: Placement = field(default_factory=Placement)
    unserved: tuple[str, ...] = ()
    recorded: bool = False
    too_many: str = ""
    protected: tuple[InventoryEntry, ...] = ()
    applied: ApplyResult | None = None
    pruned: bool = False
    removed: ApplyResult | None = None
    cluster_gone: bool = False


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


def rank_among(resource: SyncResource, other: SyncResource, assignment: Assignment) -> tuple[str, str] | None:
    """Return what orders another SyncResource of the Kyma before or after one; None where its claims don't count.

    By age, but of one module those in its present namespace precede those in a former one, so that they take over.
    What is in a namespace of another module, or of none, claims nothing.
    """
    is_same = (other.metadata.namespace, other.metadata.name) == (resource.metadata.namespace, resource.metadata.name)
    if is_same or not assignment.holds(other):
        return None
    created, name = since(other)
    standing = assignment.standing(other)
    if other.spec.module == resource.spec.module and standing is not (own := assignment.standing(resource)):
        return None if own is Standing.CURRENT else ("", name)
    return created, name


def unserved(
    left: SyncResource, namespace: str, configs: Iterable[ModuleConfig], sync_resources: Iterable[SyncResource]
) -> tuple[str, ...]:
    """Return the ModuleConfigs in a namespace that succeed those of a SyncResource, and for which none is applied yet.

    `configs` and `sync_resources` are those of its Kyma.
    """
    sources = {left.metadata.name, config_of(left)}
    applied = [each for each in sync_resources if is_applied(each)]
    return tuple(
        f"{namespace}/{config.metadata.name}"
        for config in configs
        if (config.spec.module, config.metadata.namespace) == (left.spec.module, namespace)
        and config.metadata.name in sources
        and not config.metadata.being_deleted
        and not any(belongs_to(config, each) for each in applied)
    )


@lru_cache(maxsize=64)
def _parsed(text: str) -> tuple[KubernetesObject, ...]:
    """Return the objects in a text: read at admission, and again a moment later by the reconcile."""
    return parse_objects(text)
