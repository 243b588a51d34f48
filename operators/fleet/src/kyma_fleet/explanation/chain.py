"""The causal chain of a Kyma and its modules: pure functions from what was read to links, the first cause first.

What a module resolves to and what defers it is decided by `kyma.resolution.resolve`, the function of the controller;
the rest is what the conditions say. So the explanation can't say something else than Lifecycle Manager does.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

import msgspec

from kube_runtime.ages import age, duration
from kyma_fleet.explanation.advice import ADVICE
from kyma_fleet.explanation.facts import Facts
from kyma_fleet.explanation.marks import pause_of
from lifecycle_manager.contract.conditions import CATALOG, CERTIFICATE_OVERDUE, REACHABLE, WEBHOOK, event_path_fault
from lifecycle_manager.contract.fleet import BROKEN, GOOD
from lifecycle_manager.kyma.reasons import ROLLOUT_PENDING
from lifecycle_manager.kyma.resolution import Resolution
from lifecycle_manager.module_catalog.manifests import is_mandatory_manifest, module_of_manifest
from lifecycle_manager.rollout.standing import taking_back
from lifecycle_manager_api import (
    Condition,
    Kyma,
    KymaModuleStatus,
    Manifest,
    ModuleConfig,
    State,
    SyncResource,
    find,
    names,
)

Mark = Literal["ok", "wait", "bad", "note"]
MAX_OBJECTS = 10
MODULE, MANIFEST, CONFIG, SYNC_RESOURCE = "module", "Manifest", "ModuleConfig", "SyncResource"


@dataclass(frozen=True, slots=True)
class Link:
    """One link of a chain: whether it is in order, what it is, and what is found there.

    `details` are lines below it; `part` is the name of the resource that it is about.
    """

    mark: Mark
    title: str
    text: str
    details: tuple[str, ...] = ()
    reason: str = ""
    part: str = ""


class Chain(msgspec.Struct, frozen=True, rename="camel"):
    """The links of one subject, its state, and what to do next."""

    subject: str
    state: State
    links: tuple[Link, ...]
    next_command: str = ""

    @property
    def cause(self) -> Link | None:
        """The first link that is broken, or else the first that waits."""
        return next((each for mark in ("bad", "wait") for each in self.links if each.mark == mark), None)


def explain_kyma(facts: Facts) -> tuple[Chain, ...]:
    """Return the chain of a Kyma, followed by those of its modules that are not ready."""
    return chains_not_ready(explain_all(facts))


def chains_not_ready(chains: Iterable[Chain]) -> tuple[Chain, ...]:
    """Return the first of some chains, which is that of the Kyma, and those of modules that are not ready."""
    own, *modules = chains
    return (own, *(each for each in modules if each.state not in GOOD))


def explain_all(facts: Facts) -> tuple[Chain, ...]:
    """Return the chain of a Kyma, followed by those of all its modules, in the order of its links `module`."""
    kyma, modules = facts.kyma, facts.modules()
    resolutions = facts.resolutions()
    of_modules = [_explained(facts, each, resolutions.get(each)) for each in modules]
    links = [*_links_of_cluster(facts)]
    for chain in of_modules:
        good = chain.state in GOOD
        cause = chain.cause
        text = "" if good or cause is None else f": {cause.title}: {cause.text}"
        mark: Mark = "ok" if good else mark_of(chain.state)
        links.append(Link(mark, MODULE, f"{chain.subject.partition('/')[2]} is {name_of(chain.state)}{text}"))
    if not modules:
        links.append(Link("note", "modules", "none is requested"))
    own = Chain(kyma.metadata.name, kyma.status.state, tuple(links))
    is_below = own.cause is not None and own.cause.title == MODULE
    command = "" if is_below else _next_command(facts, own, module="")
    return (Chain(own.subject, own.state, own.links, command), *of_modules)


def explain_module(facts: Facts, module: str) -> Chain:
    """Return the chain of one module of a Kyma."""
    return _explained(facts, module, facts.resolutions().get(module))


def _explained(facts: Facts, module: str, resolution: Resolution | None) -> Chain:
    kyma = facts.kyma
    known = next((each for each in kyma.status.modules if each.name == module), None)
    manifest = next((each for each in facts.manifests if module_of_manifest(each) == module), None)
    links = [
        *_links_of_cluster(facts, brief=True),
        *_wish(facts, module, known, manifest),
        *_resolved(facts, module, resolution),
        *_held_back(facts, known, resolution),
        *_links_of_manifest(facts, manifest),
        *_links_of_configs(facts, [each for each in facts.configs if each.spec.module == module]),
        *_links_of_sync_resources(facts, [each for each in facts.sync_resources if each.spec.module == module]),
    ]
    state = known.state if known is not None else manifest.status.state if manifest is not None else State.EMPTY
    if (
        known is not None
        and known.state not in GOOD
        and known.message
        and not any(each.mark == "bad" for each in links)
    ):
        links.append(Link(mark_of(known.state), "status", known.message))
    chain = Chain(f"{kyma.metadata.name}/{module}", state, tuple(links))
    return Chain(chain.subject, chain.state, chain.links, _next_command(facts, chain, module=module))


def module_of_object(facts: Facts, wanted: str) -> tuple[str, Link] | None:
    """Return the module that has an object, given as kind/name or kind/namespace/name, and a link about it."""
    parts = wanted.lower().split("/")
    for resource in facts.sync_resources:
        for each in resource.status.synced:
            if _is_named(parts, each.kind, each.namespace, each.name):
                where = f"by SyncResource {resource.metadata.namespace}/{resource.metadata.name}"
                text = f"is {name_of(each.state)}{': ' if each.message else ''}{each.message}, {where}"
                return resource.spec.module, Link(mark_of(each.state), f"{each.kind} {each.name}", text)
    for manifest in facts.manifests:
        for entry in manifest.status.synced:
            if _is_named(parts, entry.kind, entry.namespace, entry.name):
                text = f"belongs to Manifest {manifest.metadata.name}"
                return module_of_manifest(manifest), Link("note", f"{entry.kind} {entry.name}", text)
    return None


def _is_named(parts: list[str], kind: str, namespace: str, name: str) -> bool:
    full = [kind.lower(), namespace.lower(), name.lower()]
    return parts in ([full[0], full[2]], full)


def _links_of_cluster(facts: Facts, *, brief: bool = False) -> Iterator[Link]:
    """Return the links that all modules of a cluster have in common; `brief` leaves out what is in order."""
    kyma = facts.kyma
    metadata, status = kyma.metadata, kyma.status
    pause = pause_of(metadata)
    if pause is not None:
        by = f"by {pause.by} {age(pause.since, facts.now)} ago: {pause.reason}" if pause.by else "by its label"
        yield Link("bad", "paused", f"nothing is installed, upgraded or removed; {by}", reason="Paused")
    if metadata.being_deleted:
        yield Link("wait", "deleted", f"since {age(metadata.deletion_timestamp, facts.now)}; {_last_operation(kyma)}")
    observed = status.observed_generation
    if not status.conditions or observed is None:
        yield Link("wait", "reconciled", "not yet; is Lifecycle Manager running? klm status shows its replicas")
        return
    if observed < metadata.generation:
        yield Link("wait", "reconciled", f"generation {observed} of {metadata.generation} so far")
    elif not brief:
        yield Link("ok", "reconciled", f"generation {observed}")
    yield from _of_condition(facts, find(status.conditions, REACHABLE), "cluster", brief=brief)
    fault = event_path_fault(kyma)
    if fault is not None:
        since = age(fault.last_transition_time, facts.now)
        text = f"{fault.message} (since {since})"
        yield Link("bad" if not brief else "note", "Watcher", text, reason=fault.reason)
    elif not brief:
        yield from _of_condition(facts, find(status.conditions, WEBHOOK), "Watcher", brief=False)
    if not brief:
        yield from _of_condition(facts, find(status.conditions, CATALOG), "catalog", brief=False)


def _of_condition(facts: Facts, condition: Condition | None, title: str, *, brief: bool) -> Iterator[Link]:
    if condition is None:
        if not brief:
            yield Link("wait", title, "nothing is reported yet")
    elif condition.status != "True":
        text = f"{condition.message} (since {age(condition.last_transition_time, facts.now)})"
        yield Link("bad", title, text, reason=condition.reason)
    elif not brief:
        mark: Mark = "bad" if condition.reason == CERTIFICATE_OVERDUE else "ok"
        yield Link(mark, title, condition.message, reason=condition.reason)


def _wish(facts: Facts, module: str, known: KymaModuleStatus | None, manifest: Manifest | None) -> Iterator[Link]:
    kyma = facts.kyma
    source = f"Kyma {names.SKR_NAMESPACE}/{names.DEFAULT_KYMA_NAME} in the cluster"
    if known is None and manifest is not None and is_mandatory_manifest(manifest):
        yield Link("ok", "asked for", "mandatory: installed in every cluster")
    elif known is None:
        yield Link("bad", "asked for", f"not by {source}; klm explain {kyma.metadata.name} lists its modules")
    elif known.state is State.DELETING or (manifest is not None and manifest.metadata.being_deleted):
        yield Link("note", "asked for", f"no longer by {source}: {module} is being removed")
    else:
        channel = known.channel or kyma.status.active_channel
        unmanaged = ", managed: false" if known.state is State.UNMANAGED else ""
        yield Link("ok", "asked for", f"channel {channel}{unmanaged}, by {source}")


def _resolved(facts: Facts, module: str, resolution: Resolution | None) -> Iterator[Link]:
    if resolution is None:
        return
    release = facts.offer.releases.get(module)
    by = "the channel of its ModuleTemplates"
    if release is not None:
        at = facts.timing.released_at.get(module)
        changed = f", changed {age(at, facts.now)} ago" if at is not None else ""
        by = f"ModuleReleaseMeta {release.metadata.name} generation {release.metadata.generation}{changed}"
    rollouts = facts.timing.rollouts.get(module, {}).get(resolution.channel, ())
    back = taking_back(_released_version(facts, resolution), rollouts)
    if resolution.is_refused:
        details = (f"by {by}",) if release is not None else ()
        yield Link("bad", "resolved to", f"nothing: {resolution.message}", details, resolution.reason)
        return
    template = resolution.template.metadata.name if resolution.template is not None else "no ModuleTemplate"
    text = f"{resolution.version or 'no version'} ({template}), by {by}"
    yield Link("ok", "resolved to", text, (back,) if back else ())


def _held_back(facts: Facts, known: KymaModuleStatus | None, resolution: Resolution | None) -> Iterator[Link]:
    """Return what defers a change: what Lifecycle Manager reports precedes what the rules say without its options."""
    if resolution is None or resolution.is_refused:
        return
    message = resolution.message
    if known is not None and known.maintenance:
        yield Link("wait", "held back", known.message or message, reason="WaitsForMaintenance")
    elif resolution.reason == ROLLOUT_PENDING and resolution.again is not None:
        turn = f"{_at(resolution.again)}, in {age(facts.now, resolution.again)}"
        computed = f"{_released_version(facts, resolution)} is rolled out: this cluster's turn is {turn}"
        over = f"if the rollout takes {duration(facts.timing.max_delay)} (--rollout-max-delay)"
        reported = known.message if known is not None and known.state in GOOD else ""
        yield Link("wait", "held back", reported or f"{computed}, {over}", reason=resolution.reason)
    elif resolution.reason == ROLLOUT_PENDING and not message:
        if text := _waits_for_rollout(facts, resolution):
            yield Link("wait", "held back", text, reason=resolution.reason)
    elif resolution.reason:
        mark: Mark = "bad" if resolution.state is State.WARNING else "note"
        yield Link(mark, "held back", message, reason=resolution.reason)
    elif known is not None and known.version and known.version != resolution.version:
        is_about_this = known.message and known.state in GOOD
        reported = known.message if is_about_this else "its turn in the rollout has not come, or it is being reconciled"
        yield Link("wait", "held back", f"{known.version} is installed still: {reported}", reason=ROLLOUT_PENDING)


def _waits_for_rollout(facts: Facts, resolution: Resolution) -> str:
    """Return which rollout has not released its version to this cluster; nothing where the version was taken back."""
    module = resolution.module.name
    found = facts.timing.rollouts.get(module, {}).get(resolution.channel, ())
    if found and found[0].spec.undoes and found[0].spec.version == resolution.version:
        return ""
    version = found[0].spec.version if found else _released_version(facts, resolution)
    by = f" by {found[0].metadata.name} ({found[0].status.phase})" if found else ""
    template = facts.offer.template(module, version)
    downtime = template is not None and template.spec.requires_downtime
    window = ". It requires a downtime: the cluster also needs an open maintenance window" if downtime else ""
    return f"{version} is rolled out in waves{by}, and was not released to this cluster yet{window}"


def _released_version(facts: Facts, resolution: Resolution) -> str:
    return facts.offer.version_in(resolution.module.name, resolution.channel) or "the new version"


def _links_of_manifest(facts: Facts, manifest: Manifest | None) -> Iterator[Link]:
    if manifest is None:
        return
    name, status = manifest.metadata.name, manifest.status
    pause = pause_of(manifest.metadata)
    if pause is not None:
        by = f"{pause.by}: {pause.reason}" if pause.by else "its label"
        yield Link("bad", MANIFEST, f"{name} is paused by {by}", reason="Paused", part=name)
    if status.observed_generation is not None and status.observed_generation < manifest.metadata.generation:
        so_far = f"generation {status.observed_generation} of {manifest.metadata.generation} so far"
        yield Link("wait", MANIFEST, f"{name}: {so_far}", part=name)
    count = f"{len(status.synced)} objects" if status.synced else "no objects yet"
    if status.state in GOOD:
        yield Link("ok", MANIFEST, f"{name}: {manifest.spec.version or 'no version'}, {count}, ready", part=name)
        return
    yield _of_part(facts, MANIFEST, name, status.state, status.conditions)


def _links_of_configs(facts: Facts, configs: Iterable[ModuleConfig]) -> Iterator[Link]:
    for config in configs:
        name = config.metadata.name
        if config.status.state in GOOD:
            yield Link("ok", CONFIG, f"{name}: {_source_of(config)}", part=name)
        elif _is_rendered(config) and any(_is_made_of(each, config) for each in facts.sync_resources):
            text = f"{name} is {name_of(config.status.state)} because of its SyncResource"
            yield Link("note", CONFIG, text, part=name)
        else:
            yield _of_part(facts, CONFIG, name, config.status.state, config.status.conditions)


def _is_rendered(config: ModuleConfig) -> bool:
    """Tell whether nothing but the objects can be wrong: the Module CR was read, and its Module Manager took it."""
    return not any(each.status == "False" and each.type != "Ready" for each in config.status.conditions)


def _is_made_of(resource: SyncResource, config: ModuleConfig) -> bool:
    owners = {each.uid for each in resource.metadata.owner_references}
    return config.metadata.uid in owners and resource.status.state not in GOOD


def _source_of(config: ModuleConfig) -> str:
    reference = config.spec.resource_ref
    return f"copy of {reference.kind} {reference.namespace}/{reference.name}" if reference is not None else "ready"


def _links_of_sync_resources(facts: Facts, resources: Iterable[SyncResource]) -> Iterator[Link]:
    for resource in resources:
        status, name = resource.status, resource.metadata.name
        if status.state in GOOD:
            yield Link("ok", SYNC_RESOURCE, f"{name}: {status.objects or 'no'} objects ready", part=name)
            continue
        link = _of_part(facts, SYNC_RESOURCE, name, status.state, status.conditions)
        troubled = [each for each in status.synced if each.state not in GOOD]
        troubled = [each for each in troubled if not each.message or each.message not in link.text]
        lines = [
            f"{each.kind} {each.namespace + '/' if each.namespace else ''}{each.name} is {name_of(each.state)}"
            f"{': ' if each.message else ''}{each.message}"
            for each in troubled[:MAX_OBJECTS]
        ]
        more = [f"and {len(troubled) - MAX_OBJECTS} more"] if len(troubled) > MAX_OBJECTS else []
        yield replace(link, details=(*lines, *more))


def _of_part(facts: Facts, title: str, name: str, state: State, conditions: Iterable[Condition]) -> Link:
    """Return the link of a part that is not ready: the first condition that is not True, other than their sum."""
    known = [each for each in conditions if each.status != "True"]
    worst = next((each for each in known if each.type != "Ready"), known[0] if known else None)
    if worst is None:
        return Link(mark_of(state), title, f"{name} is {name_of(state)}", part=name)
    text = f"{name} is {name_of(state)}: {worst.message} (since {age(worst.last_transition_time, facts.now)})"
    return Link(mark_of(state), title, text, reason=worst.reason, part=name)


def mark_of(state: State) -> Mark:
    """Return the mark of a state."""
    return "bad" if state in BROKEN else "ok" if state in GOOD else "wait"


def name_of(state: State) -> str:
    """Return a state as it is shown."""
    return state.value or "new"


def _at(moment: datetime) -> str:
    return moment.strftime("%H:%M:%S %Z")


def _last_operation(kyma: Kyma) -> str:
    operation = kyma.status.last_operation
    return operation.operation if operation is not None else "nothing is reported"


def _next_command(facts: Facts, chain: Chain, *, module: str) -> str:
    """Return what to do about the cause of a chain."""
    cause, name = chain.cause, facts.kyma.metadata.name
    if cause is None:
        return ""
    if cause.reason == "Paused":
        return f"klm resume {name}"
    if cause.reason in ADVICE:
        manifest = next((each.metadata.name for each in facts.manifests if module_of_manifest(each) == module), "")
        return ADVICE[cause.reason].format(
            ns=names.KCP_NAMESPACE, kyma_label=names.KYMA_NAME, kyma=name, module=module, manifest=manifest
        )
    others = {MODULE: f"klm explain {name} {cause.text.partition(' ')[0]}", "reconciled": "klm status"}
    waiting = {"wait": f"klm get modules --kyma {name} --watch"}
    return others.get(cause.title) or waiting.get(cause.mark) or f"klm events {name}"
