"""One cluster as a tree, from its Kyma to the objects of its modules. Pure functions."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lifecycle_manager_api import (
    Condition,
    Kyma,
    Manifest,
    ModuleConfig,
    State,
    SyncResource,
    find,
    names,
)

MAX_OBJECTS = 100


@dataclass(frozen=True, slots=True)
class Node:
    """A resource or an object: its state, and why it has that state."""

    kind: str
    name: str
    state: State = State.EMPTY
    reason: str = ""
    message: str = ""
    since: datetime | None = None
    children: tuple["Node", ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether the page shows what is below it at first: the modules, and the way to whatever is not ready."""
        is_ready = self.state in {State.READY, State.UNMANAGED}
        return self.kind == "Kyma" or not is_ready or any(each.is_open for each in self.children)


@dataclass(frozen=True, slots=True)
class Parts:
    """What belongs to one Kyma in the control plane."""

    manifests: Sequence[Manifest] = ()
    module_configs: Sequence[ModuleConfig] = ()
    sync_resources: Sequence[SyncResource] = ()


@dataclass(frozen=True, slots=True)
class Moment:
    """One station of the last change."""

    when: datetime
    what: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the page of one cluster shows."""

    kyma: Kyma
    tree: Node
    last_change: tuple[Moment, ...] = field(default=())

    @property
    def conditions(self) -> Sequence[Condition]:
        """The conditions of the Kyma, those that do not hold first."""
        return sorted(self.kyma.status.conditions, key=lambda each: (each.status == "True", each.type))


def cluster_of(kyma: Kyma, parts: Parts) -> Cluster:
    """Return what the page of a cluster shows."""
    modules = tuple(_module(kyma, each.name, parts) for each in kyma.status.modules)
    mandatory = tuple(_of_manifest(each) for each in parts.manifests if _is_mandatory(each))
    tree = _node("Kyma", kyma, children=(*modules, *mandatory))
    return Cluster(kyma, tree, tuple(_last_change(parts)))


def _module(kyma: Kyma, name: str, parts: Parts) -> Node:
    status = next(each for each in kyma.status.modules if each.name == name)
    children = [
        _of_manifest(each)
        for each in parts.manifests
        if each.metadata.labels.get(names.MODULE_NAME) == name and not _is_mandatory(each)
    ]
    configs = [each for each in parts.module_configs if each.spec.module == name]
    syncs = [each for each in parts.sync_resources if each.spec.module == name]
    for config in configs:
        own = [each for each in syncs if _belongs_to(each, config)]
        children.append(
            _node("ModuleConfig", config, _source_of(config), tuple(_of_sync_resource(each) for each in own))
        )
    known = {each.metadata.uid for each in syncs for config in configs if _belongs_to(each, config)}
    children += [_of_sync_resource(each) for each in syncs if each.metadata.uid not in known]
    version = " ".join(filter(None, (status.version, status.channel and f"({status.channel})")))
    return Node("Module", f"{name} {version}".strip(), status.state, "", status.message, None, tuple(children))


def _of_manifest(manifest: Manifest) -> Node:
    title = f"{manifest.metadata.name} {manifest.spec.version}".strip()
    objects = tuple(Node(each.kind, _object_name(each.namespace, each.name)) for each in manifest.status.synced)
    return _node("Manifest", manifest, title, _bounded(objects))


def _of_sync_resource(resource: SyncResource) -> Node:
    objects = sorted(
        (
            Node(each.kind, _object_name(each.namespace, each.name), each.state, "", each.message)
            for each in resource.status.synced
        ),
        key=lambda each: (each.state is State.READY, each.kind, each.name),
    )
    return _node(
        "SyncResource", resource, f"{resource.metadata.name} {resource.status.objects}", _bounded(tuple(objects))
    )


def _node(
    kind: str, thing: Kyma | Manifest | ModuleConfig | SyncResource, title: str = "", children: tuple[Node, ...] = ()
) -> Node:
    ready = find(thing.status.conditions, "Ready")
    return Node(
        kind,
        title or thing.metadata.name,
        State.DELETING if thing.metadata.being_deleted else thing.status.state,
        ready.reason if ready else "",
        ready.message if ready else "",
        ready.last_transition_time if ready else None,
        children,
    )


def _bounded(objects: tuple[Node, ...]) -> tuple[Node, ...]:
    more = len(objects) - MAX_OBJECTS
    return objects if more <= 0 else (*objects[:MAX_OBJECTS], Node("", f"and {more} more objects"))


def _source_of(config: ModuleConfig) -> str:
    source = config.spec.resource_ref
    if source is None:
        return config.metadata.name
    return f"{config.metadata.name} from {source.kind} {_object_name(source.namespace, source.name)}"


def _object_name(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _belongs_to(resource: SyncResource, config: ModuleConfig) -> bool:
    owners = {owner.uid for owner in resource.metadata.owner_references}
    return config.metadata.uid in owners or (not owners and resource.metadata.name == config.metadata.name)


def _is_mandatory(manifest: Manifest) -> bool:
    return manifest.metadata.labels.get(names.MANDATORY_MODULE) == "true"


def _last_change(parts: Parts) -> Iterator[Moment]:
    """Give the stations of the newest change of a Module CR, as far as the resources still show them."""
    observed = [(time, config) for config in parts.module_configs if (time := _observed_at(config)) is not None]
    if not observed:
        return
    when, config = max(observed, key=lambda each: each[0])
    yield Moment(when, f"the user changed {_source_of(config).rpartition(' from ')[2]}")
    syncs = [each for each in parts.sync_resources if _belongs_to(each, config)]
    stations = (("written as ModuleConfig", "Synced", [config]), ("rendered", "Rendered", [config]))
    for what, kind, things in stations:
        yield from _transitions(things, kind, what)
    for resource in syncs:
        yield from _transitions(
            [resource], "Ready", "in force" if resource.status.state is State.READY else "not ready"
        )


def _transitions(things: Iterable[ModuleConfig | SyncResource], kind: str, what: str) -> Iterator[Moment]:
    for thing in things:
        condition = find(thing.status.conditions, kind)
        if condition is not None and condition.last_transition_time is not None:
            yield Moment(condition.last_transition_time, what)


def _observed_at(config: ModuleConfig) -> datetime | None:
    try:
        found = datetime.fromisoformat(config.metadata.annotations.get(names.OBSERVED_AT, ""))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
