"""Which changes of modules' objects the Watcher of an SKR reports, so that they are repaired at once.

The kinds come from the inventories of the Kyma's Manifests and SyncResources, which only the Lifecycle Manager writes.
A kind is left out again once no module has objects of it. What of their changes is of interest decides the API server
itself, by the conditions in `documents`: an object that others write all the time causes no request.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import structlog

from kube_runtime import (
    Change,
    Client,
    Forbidden,
    Informer,
    KindUnknown,
    Manager,
    MethodNotAllowed,
    NotServed,
    ObjectKey,
    Resource,
)
from lifecycle_manager.contract.indexes import MANIFESTS_BY_KYMA, SYNC_RESOURCES_BY_KYMA
from lifecycle_manager.contract.resources import FIELD_MANAGER, MANIFESTS, SYNC_RESOURCES
from lifecycle_manager.module_catalog.manifests import kyma_of_manifest, module_of_manifest
from lifecycle_manager.object_set.policy import Policies
from lifecycle_manager.skr_webhook.documents import ModuleRule, ObjectRules
from lifecycle_manager_api import Manifest, ModulePolicy, SyncResource, names

MAX_KINDS = 50
"""Of how many kinds changes are reported, those that most modules have first. Others are found at the interval."""
MAX_USER_LENGTH = 256
WITHOUT_WEBHOOKS = frozenset({"admissionregistration.k8s.io"})
"""Groups for whose objects an API server calls no webhook."""

SELF_SUBJECT_REVIEWS: Resource[dict[str, object]] = Resource.dynamic(
    "authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False
)
Part = Manifest | SyncResource
Kind = tuple[str, str]
"""The apiVersion and name of a kind."""

log = structlog.get_logger("skr_webhook")


@dataclass(frozen=True, eq=False)
class ObjectRuleReader:
    """Finds out of which kinds the modules of a Kyma have objects in its SKR. `users`: as whom SKRs know clients."""

    manifests: Informer[Manifest]
    sync_resources: Informer[SyncResource]
    policies: Policies
    users: WeakKeyDictionary[Client, str] = field(default_factory=WeakKeyDictionary)

    @classmethod
    def watched_by(cls, manager: Manager) -> "ObjectRuleReader":
        return cls(
            manager.informer(MANIFESTS, namespace=names.KCP_NAMESPACE, indexes=[MANIFESTS_BY_KYMA]),
            manager.informer(SYNC_RESOURCES, namespace=None, indexes=[SYNC_RESOURCES_BY_KYMA]),
            Policies.watched_by(manager),
        )

    async def read(self, kyma: str, skr: Client) -> ObjectRules | None:
        modules = self._kinds_by_module(kyma)
        policies = {module: policy for module in modules if (policy := self.policies.of(module)) is not None}
        left_out = {module for module, policy in policies.items() if not policy.spec.repair_on_events}
        counts = Counter(kind for module, kinds in modules.items() if module not in left_out for kind in kinds)
        ordered = sorted(counts, key=lambda kind: (-counts[kind], kind))
        rules = await _rules_of(ordered, skr) if ordered else frozenset()
        if rules and skr not in self.users:
            self.users[skr] = await _ask_for_user(skr)
        user = self.users[skr] if rules else ""
        return ObjectRules(tuple(sorted(rules)), user, tuple(sorted(left_out))) if user else None

    def _kinds_by_module(self, kyma: str) -> dict[str, frozenset[Kind]]:
        parts: list[Part] = [
            *self.manifests.by_index(MANIFESTS_BY_KYMA, kyma),
            *filter(self.policies.is_in_place, self.sync_resources.by_index(SYNC_RESOURCES_BY_KYMA, kyma)),
        ]
        kinds: dict[str, frozenset[Kind]] = {}
        for part in parts:
            kinds[module_of(part)] = kinds.get(module_of(part), frozenset()) | kinds_of(part)
        return kinds


async def _ask_for_user(skr: Client) -> str:
    """Return the name of the user as whom an SKR knows a client; empty where it does not say. Raises KubeError."""
    try:
        review = await skr.create(SELF_SUBJECT_REVIEWS, {}, field_manager=FIELD_MANAGER)
    except (Forbidden, NotServed, MethodNotAllowed) as error:
        log.warning("changes of modules' objects are not reported: the cluster names no user", error=str(error))
        return ""
    status = review.get("status")
    info = status.get("userInfo") if isinstance(status, dict) else None
    user = info.get("username") if isinstance(info, dict) else None
    if not isinstance(user, str) or not 0 < len(user) <= MAX_USER_LENGTH or not (user.isascii() and user.isprintable()):
        log.warning("changes of modules' objects are not reported: the cluster names an unusual user")
        return ""
    return user


async def _rules_of(kinds: Iterable[Kind], skr: Client) -> frozenset[ModuleRule]:
    rules: set[ModuleRule] = set()
    for api_version, kind in kinds:
        if len(rules) >= MAX_KINDS:
            break
        try:
            resource = await skr.mapper.served(api_version, kind)
        except KindUnknown:
            continue  # its inventory changes once there are objects
        if resource is None:
            continue
        rules.add(ModuleRule(resource.group, resource.plural))
    return frozenset(rules)


def kinds_of(part: Part) -> frozenset[Kind]:
    """Return the kinds of the objects that a Manifest or SyncResource has in its SKR."""
    found = {(each.group, each.version, each.kind) for each in part.status.synced}
    return frozenset(
        (f"{group}/{version}" if group else version, kind)
        for group, version, kind in found
        if group not in WITHOUT_WEBHOOKS
    )


def module_of(part: Part) -> str:
    return part.spec.module if isinstance(part, SyncResource) else module_of_manifest(part)


def kymas_of(change: Change[Manifest] | Change[SyncResource]) -> Iterable[ObjectKey]:
    part = change.new or change.old
    if part is not None:
        kyma = part.spec.kyma if isinstance(part, SyncResource) else kyma_of_manifest(part)
        yield ObjectKey(names.KCP_NAMESPACE, kyma)


def kinds_changed(change: Change[Manifest] | Change[SyncResource]) -> bool:
    old, new = change.old, change.new
    before, after = (kinds_of(each) if each is not None else frozenset() for each in (old, new))
    return before != after


def repair_switched(change: Change[ModulePolicy]) -> bool:
    before, after = (each is None or each.spec.repair_on_events for each in (change.old, change.new))
    return before != after
