"""What was found, what becomes of it, and what is in the way: pure functions of what was read."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from kube_runtime.ages import age
from kyma_fleet.checking.findings import of_version
from kyma_takeover.adoption.cluster import ClusterReport
from kyma_takeover.adoption.counts import named
from kyma_takeover.adoption.deployment import Deployment, FormerOption, elects_leader, options_of
from kyma_takeover.adoption.reading import ACCESSES, FormerControlPlane
from kyma_takeover.certificates import CA_SECRET
from kyma_takeover.lease import LEASE, holder_of
from lifecycle_manager_api import State
from lifecycle_manager_api.conditions import counted

SOON = timedelta(days=7)
"""A CA that ends sooner may end before every cluster trusts its successor."""


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that was found, and what becomes of it."""

    title: str
    found: str
    becomes: str


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What has to be put in order before the takeover, and how."""

    text: str
    advice: str


def rows_of(seen: FormerControlPlane) -> Iterator[Row]:
    """Yield what was found, in the order in which an operator reads it."""
    yield Row("API server", seen.server_version, "")
    for each in seen.deployments:
        running = f"Deployment {each.name}, {each.running} of {counted(each.replicas, 'replica')}: {each.image}"
        yield Row("former version", running, "klm adopt scales it to zero, and remembers the number")
    yield from _leases(seen)
    yield from _objects(seen)
    yield from _secrets(seen)
    if any(each.has_policy for each in seen.deployments):
        yield Row("policy", "a maintenance policy is mounted", "mount it at the same path, or set --maintenance-policy")


def obstacles_of(
    seen: FormerControlPlane, options: Iterable[FormerOption], clusters: Iterable[ClusterReport]
) -> list[Obstacle]:
    """Return what is in the way."""
    found = list(_in_the_way(seen))
    found += [Obstacle(f"option {each.becomes}: {each.why}", "leave it out") for each in options if each.refused]
    for cluster in clusters:
        if cluster.error:
            text = f"the cluster of Kyma {cluster.kyma} can't be read: {cluster.error}"
            found.append(Obstacle(text, "correct its access Secret, or go on without it: it is taken over later"))
        if cluster.missing_rights:
            rights = ", ".join(cluster.missing_rights)
            text = f"the access to the cluster of Kyma {cluster.kyma} may not {rights}"
            found.append(Obstacle(text, "bind the ClusterRoles of lifecycle_manager/rbac to its user"))
    return found


def all_options(deployments: Iterable[Deployment]) -> list[FormerOption]:
    """Return the options of the former version, each once."""
    return list(dict.fromkeys(option for each in deployments for option in options_of(each.arguments)))


def _leases(seen: FormerControlPlane) -> Iterator[Row]:
    if seen.lease is not None:
        holder = holder_of(seen.lease, seen.read_at)
        state = f"held by {holder}" if holder else "not held by the former version"
        becomes = "this version waits until it has run out, then holds it" if holder else "held by this version"
        yield Row("Lease", f"{LEASE} {state}", becomes)
    for each in seen.replicas:
        renewed = f"replica {each.name} of this version renewed its Lease {age(each.renewed, seen.read_at)} ago"
        yield Row("Lease", renewed, "it works as soon as nobody holds the other Lease")


def _objects(seen: FormerControlPlane) -> Iterator[Row]:
    counts = seen.counts
    paused = f", {len(counts.paused):,} with skip-reconciliation" if counts.paused else ""
    deleted = f", {len(counts.deleted_kymas):,} being deleted" if counts.deleted_kymas else ""
    kymas = f"{sum(counts.states.values()):,}: {_states(counts.states)}{deleted}{paused}"
    yield Row("Kymas", kymas, "keep their names and uids; paused ones stay as they are")
    total = sum(counts.modules.values())
    manifests = f"{total:,}: {_states(counts.manifests)}" if total else "0"
    if counts.deleted_manifests:
        manifests += f", {counts.deleted_manifests:,} being deleted"
    yield Row("Manifests", manifests, "keep their names and uids")
    if counts.former_finalizers:
        text = f"on {counted(counts.former_finalizers, 'Manifest')}"
        yield Row("finalizers", text, "stay until the Manifest is deleted, so the way back stays open")
    names = {module for module, _ in counts.modules}
    yield Row("modules", f"{len(names)} in {counted(len(counts.modules), 'version')}", "nothing is installed anew")
    catalog = f"{seen.templates} ModuleTemplates, {seen.releases} ModuleReleaseMetas"
    yield Row("catalog", catalog, "used as it is")
    if seen.for_nobody:
        text = f"empty kymaSelector: {named(seen.for_nobody)}"
        yield Row("catalog", text, "matches no Kyma, as before")
    yield Row("Watcher CRs", f"{seen.watchers}", "become webhooks; VirtualServices need --watcher-virtual-services")


def _secrets(seen: FormerControlPlane) -> Iterator[Row]:
    counts, secrets = seen.counts, seen.secrets
    if ACCESSES not in seen.unread:
        yield Row("access Secrets", f"{counts.accesses.total():,}", "used as they are")
        if counts.unlabelled:
            text = f"{len(counts.unlabelled):,} without managed-by: {named(counts.unlabelled)}"
            yield Row("access Secrets", text, "klm adopt labels them: others are not read")
        if several := counts.with_several_accesses():
            yield Row("access Secrets", f"several of a Kyma: {named(several)}", "the oldest is used")
    if secrets is None:
        return
    if secrets.ca_until is not None:
        text = f"{secrets.namespace}/{CA_SECRET}, ends {secrets.ca_until:%Y-%m-%d}"
        option = f"adopted with --self-signed-cert-issuer-namespace={secrets.namespace}"
        yield Row("CA", text, option)
    if secrets.has_gateway:
        yield Row("CA", "the gateway has a bundle of CAs", "trusted during the takeover")
    yield Row("certificates", f"{secrets.leaves:,} of Watchers", "not used; each Watcher gets a new one")


def _in_the_way(seen: FormerControlPlane) -> Iterator[Obstacle]:
    counts, secrets = seen.counts, seen.secrets
    version = of_version(seen.server_version)
    if version.mark == "bad":
        yield Obstacle(f"API server: {version.text}", version.advice)
    holder = holder_of(seen.lease, seen.read_at) if seen.lease is not None else ""
    known = [each for each in seen.deployments if holder.startswith(f"{each.name}-")]
    if holder and not known and "Deployment" not in seen.unread:
        text = f"Lease {LEASE} is held by {holder}, which is no Pod of a Deployment of the former version"
        yield Obstacle(text, "find out what it is, and stop it")
    for each in seen.deployments:
        if each.replicas and not elects_leader(each):
            text = f"Deployment {each.name} runs without --leader-elect: no Lease keeps this version off while it works"
            yield Obstacle(text, "run klm adopt, which stops it, before this version is installed")
    for title, why in seen.unread.items():
        yield Obstacle(f"{title} can't be read: {why}", "run this as an administrator of the control plane")
    yield from _unusable_objects(seen)
    for refusal, examples in counts.refused_accesses.items():
        text = f"{counted(len(examples), 'access Secret')} not usable, such as {named(examples)}: {refusal}"
        yield Obstacle(text, "correct it, or run this version and klm adopt with --allow-insecure-kubeconfigs")
    if secrets is not None and secrets.ca_until is None:
        what = "has no readable certificate" if secrets.has_ca else "does not exist"
        text = f"Secret {secrets.namespace}/{CA_SECRET} {what}: events of former Watchers would be refused"
        yield Obstacle(text, "name the namespace of the CA by --ca-namespace")
    elif secrets is not None and secrets.ca_until is not None and secrets.ca_until < seen.read_at + SOON:
        text = f"the CA in {secrets.namespace}/{CA_SECRET} ends {secrets.ca_until:%Y-%m-%d %H:%M} UTC"
        yield Obstacle(text, "renew it with the former version before")


def _unusable_objects(seen: FormerControlPlane) -> Iterator[Obstacle]:
    counts = seen.counts
    if shared := counts.shared_runtimes():
        text = f"several Kymas have the same runtime id: {named(shared)}"
        yield Obstacle(text, "give each its own label kyma-project.io/runtime-id: a Watcher's events name it")
    if (missing := counts.without_access()) and ACCESSES not in seen.unread:
        text = f"{counted(len(missing), 'Kyma')} without access Secret: {named(missing)}"
        yield Obstacle(text, "create the Secrets, or delete the Kymas whose clusters are gone")
    if counts.unusable:
        text = f"{counted(len(counts.unusable), 'Manifest')} without a Kyma: {named(counts.unusable)}"
        yield Obstacle(text, "delete them: this version installs nothing for them")
    if counts.orphans:
        text = f"{counted(len(counts.orphans), 'Manifest')} of Kymas that do not exist: {named(counts.orphans)}"
        yield Obstacle(text, "delete them")


def _states(states: Counter[State]) -> str:
    return ", ".join(f"{count:,} {state.value or 'new'}" for state, count in states.most_common())
