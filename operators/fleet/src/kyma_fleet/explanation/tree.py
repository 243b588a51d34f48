"""The chains of a cluster as one tree, from its Kyma to the objects of its modules: pure functions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kyma_fleet.explanation.chain import MANIFEST, MODULE, SYNC_RESOURCE, Chain, Link, Mark, mark_of, name_of
from kyma_fleet.explanation.facts import Facts
from lifecycle_manager_api import Manifest, SyncResource

MAX_OBJECTS = 100
"""How many objects of one resource are shown, those that are not ready first."""


@dataclass(frozen=True, slots=True)
class Node:
    """A link of a chain, or an object, with what is below it."""

    mark: Mark
    title: str
    text: str
    details: tuple[str, ...] = ()
    children: tuple["Node", ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether what is below it is shown at first: on the way to whatever is not in order."""
        return self.mark in {"bad", "wait"} or any(each.is_open for each in self.children)

    @property
    def in_order(self) -> tuple["Node", ...]:
        """What is folded beside what is not in order."""
        found = tuple(each for each in self.children if each.mark == "ok" and not each.is_open)
        return found if 1 < len(found) < len(self.children) else ()

    @property
    def notable(self) -> tuple["Node", ...]:
        """What is shown by itself."""
        return tuple(each for each in self.children if each not in self.in_order)


def tree_of(facts: Facts, explained: Sequence[Chain]) -> Node:
    """Return a cluster as a tree, from the chains that `explain_all` found."""
    own, *modules = explained
    chains = iter(modules)
    known = {each.title for each in own.links}
    children = tuple(
        _of_module(facts, each, next(chains), known) if each.title == MODULE else _of_link(each) for each in own.links
    )
    cause = own.cause
    text = f"{own.subject} is {name_of(own.state)}"
    return Node(cause.mark if cause is not None else mark_of(own.state), facts.kyma.kind, text, children=children)


def _of_module(facts: Facts, link: Link, chain: Chain, known: set[str]) -> Node:
    """Return a module; its cause is in its text only where it is that of its cluster, which stands above it."""
    cause = chain.cause
    below = f": {cause.title}: {cause.text}" if cause is not None and cause.title not in known else ""
    return _of_link(replace(link, text=link.text.removesuffix(below)), tuple(_links_of(facts, chain, known)))


def _links_of(facts: Facts, chain: Chain, known: set[str]) -> Iterable[Node]:
    """Give the links of a module, without those of its cluster."""
    shown: set[tuple[str, str]] = set()
    for link in chain.links:
        if link.title in known:
            continue
        place = (link.title, link.part)
        yield _of_link(link, () if place in shown else _objects(facts, link))
        shown.add(place)


def _of_link(link: Link, children: tuple[Node, ...] = ()) -> Node:
    return Node(link.mark, link.title, link.text, link.details if not children else (), children)


def _objects(facts: Facts, link: Link) -> tuple[Node, ...]:
    resources: Sequence[Manifest | SyncResource] = ()
    if link.title == MANIFEST:
        resources = facts.manifests
    elif link.title == SYNC_RESOURCE:
        resources = facts.sync_resources
    found = next((each for each in resources if each.metadata.name == link.part), None)
    if found is None:
        return ()
    nodes = _of_manifest(found) if isinstance(found, Manifest) else _of_sync_resource(found)
    more = len(nodes) - MAX_OBJECTS
    return (*nodes[:MAX_OBJECTS], *([Node("note", "", f"and {more} more objects")] if more > 0 else []))


def _of_manifest(manifest: Manifest) -> list[Node]:
    return [Node("note", each.kind, _named(each.namespace, each.name)) for each in manifest.status.synced]


def _of_sync_resource(resource: SyncResource) -> list[Node]:
    nodes = [
        Node(
            mark_of(each.state),
            each.kind,
            f"{_named(each.namespace, each.name)} is {name_of(each.state)}{': ' if each.message else ''}{each.message}",
        )
        for each in resource.status.synced
    ]
    return sorted(nodes, key=lambda each: (each.mark == "ok", each.title, each.text))


def _named(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name
