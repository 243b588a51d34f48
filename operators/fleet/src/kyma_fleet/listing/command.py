"""Reads what was asked for, page by page, writes it, and follows its changes."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kube_runtime import Client, Gone, ObjectUnreadable, Resource
from kyma_fleet.control_plane import not_found, require_control_plane
from kyma_fleet.documents import raw
from kyma_fleet.listing.formats import Output, output_for, typed
from kyma_fleet.listing.kinds import PAUSED_KYMAS, ListedKind, beside
from kyma_fleet.listing.selection import Selection
from kyma_fleet.problems import Problem, meant
from kyma_fleet.running import INTERRUPTIONS, RETRY_SECONDS
from kyma_fleet.screen import Screen, say
from lifecycle_manager.contract.resources import MODULE_ROLLOUTS
from lifecycle_manager.module_catalog.manifests import module_of_manifest
from lifecycle_manager_api import Kyma, Manifest, ModuleReleaseMeta, names

PAGE_SIZE = 500


@dataclass(eq=False)
class Listing:
    """One run of `klm get`."""

    kcp: Client
    kind: ListedKind[Any]
    selection: Selection
    namespace: str | None
    output: Output
    screen: Screen
    known: set[str] = field(default_factory=set, init=False)
    """The names of modules among what was read, for whoever misspelt one."""

    async def run(self, *, watch: bool) -> int:
        """Write what there is, and with `watch` each change until the operator stops it; return the exit code."""
        count, version = 0, ""
        async for items, at in self._pages():
            count, version = count + self.output.page(self._selected(items), datetime.now(UTC)), at
        if watch:
            self.screen.flush()
            await self._follow(version)
        self.output.end()
        if not count:
            await require_control_plane(self.kcp)
            self._note(self._nothing())
        return 0

    @property
    def _resource(self) -> Resource[Any]:
        return raw(self.kind.resource) if self.output.raw else self.kind.resource

    async def _pages(self) -> AsyncIterator[tuple[Iterable[Any], str]]:
        name, selector = self._name, self.kind.selector(self.selection)
        is_found = not name or selector is not None
        pages = self.kcp.pages(
            self._resource,
            self.namespace,
            label_selector=selector,
            field_selector=self._field_selector(),
            page_size=PAGE_SIZE,
            unreadable=self._leave_out,
        )
        async for page in pages:
            is_found = is_found or bool(page.items)
            yield page.items, page.resource_version
        if not is_found:
            raise not_found(self._resource, name)

    @property
    def _name(self) -> str:
        """The name of the object that was asked for."""
        return self.selection.name if self.kind.named_objects else ""

    def _field_selector(self) -> str | None:
        return f"metadata.name={self._name}" if self._name else None

    def _selected(self, items: Iterable[Any]) -> Iterable[Any]:
        for item in items:
            try:
                whole = typed(self.kind, item) if self.output.raw else item
                if self._module:
                    self.known.update(_modules_of(whole))
                if self.kind.selects(self.selection, whole):
                    yield item
            except ObjectUnreadable as error:
                self._leave_out(error)

    def _leave_out(self, error: ObjectUnreadable) -> None:
        if self._name:  # nothing else was asked for
            raise error
        self._note(f"left out: {error}")

    async def _follow(self, version: str) -> None:
        lists = False
        while True:
            try:
                if lists:
                    async for items, at in self._pages():
                        self.output.page(self._selected(items), datetime.now(UTC))
                        version = at
                    lists = False
                version = await self._watch(version)
            except Gone:  # too much happened since: all is listed again
                lists = True
            except ObjectUnreadable as error:
                self._note(f"left out: {error}")
                lists, version = False, error.identity[2]
            except INTERRUPTIONS as error:
                self._note(f"the watch broke and is opened again: {error}")
                await asyncio.sleep(RETRY_SECONDS)

    async def _watch(self, version: str) -> str:
        events = self.kcp.watch(
            self._resource,
            self.namespace,
            resource_version=version,
            label_selector=self.kind.selector(self.selection),
            field_selector=self._field_selector(),
        )
        async with aclosing(events):
            async for event in events:
                version = event.resource_version
                if event.object is None:
                    continue
                if event.type == "DELETED":
                    self._note(f"deleted: {self.kind.resource.kind} {self._resource.key_of(event.object)}")
                else:
                    self.output.page(self._selected((event.object,)), datetime.now(UTC))
                self.screen.flush()
        return version

    def _note(self, text: str) -> None:
        self.screen.flush()
        say(text)

    @property
    def _module(self) -> str:
        """The name of the module that was asked for."""
        return self.selection.module or ("" if self.kind.named_objects else self.selection.name)

    def _nothing(self) -> str:
        if not self.selection.given():
            return f"there are no {self.kind.name}"
        wanted = self._module
        return f"no {self.kind.name} match" + ("" if wanted in self.known else meant(wanted, self.known, "the module "))


def _modules_of(item: object) -> Iterator[str]:
    match item:
        case Kyma():
            yield from (each.name for each in item.status.modules)
        case ModuleReleaseMeta():
            yield item.spec.module_name
        case Manifest():
            yield module_of_manifest(item)


async def list_kind(
    kcp: Client, screen: Screen, kind: ListedKind[Any], selection: Selection, namespace: str, *, watch: bool
) -> int:
    """List the objects of a kind that were selected, and with `watch` follow them."""
    listed = PAUSED_KYMAS if selection.paused and kind.name == "kymas" and screen.form == "table" else kind
    if kind.resource == MODULE_ROLLOUTS:
        readable = await kcp.list(MODULE_ROLLOUTS, names.KCP_NAMESPACE, unreadable=lambda _: None)  # named below
        listed = beside(readable.items, kind)
    output = output_for(listed, selection, screen, watch=watch)
    return await Listing(kcp, listed, selection, namespace or listed.namespace, output, screen).run(watch=watch)


def check_filters(kind: ListedKind[Any], selection: Selection) -> None:
    """Raise Problem where a filter means nothing for the kind."""
    if unknown := sorted(selection.given() - kind.filters):
        known = ", ".join(f"--{each}" for each in sorted(kind.filters - {"name", "labels"}))
        raise Problem(f"--{unknown[0]} does not select {kind.name}; they have {known} and -l")
