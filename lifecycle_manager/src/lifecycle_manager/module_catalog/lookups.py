"""Descriptors that ModuleTemplates leave out, looked up in the registry that keeps the modules' components.

A ModuleTemplate whose `spec.descriptor` is empty stands for the component that its module's ModuleReleaseMeta names by
`ocmComponentName`, in the template's version. A version of a component never changes, so one that was found is not
asked for again while a template stands for it. What can't be found is told where the module would be installed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import structlog

from kube_runtime import Change, Controller, Informer, Result
from lifecycle_manager.module_catalog.descriptor import is_left_out
from lifecycle_manager.module_catalog.offer import module_of, version_of
from lifecycle_manager.resources import DatedReleaseMeta
from lifecycle_manager_api import ModuleTemplate

log = structlog.get_logger("modules")

AT_ONCE = 4


class ComponentVersion(NamedTuple):
    """A version of a component of the Open Component Model."""

    component: str
    version: str

    def __str__(self) -> str:
        return f"{self.component}:{self.version}"


class LookupFailed(Exception):
    """A descriptor can't be had; nobody need ask again before `again_after_seconds`."""

    def __init__(self, message: str, again_after_seconds: float) -> None:
        super().__init__(message)
        self.again_after_seconds = again_after_seconds


Find = Callable[[ComponentVersion], Awaitable[msgspec.Raw]]
"""Gives the descriptor of a component's version. Raises LookupFailed."""


@dataclass(eq=False)
class Lookups:
    """Finds the descriptors of the templates that are there, in the background. `changes` counts what was found out."""

    templates: Informer[ModuleTemplate]
    releases: Informer[DatedReleaseMeta]
    find: Find
    on_news: Callable[[ModuleTemplate], None] = field(default_factory=lambda: _tell_nobody, init=False)
    changes: int = field(default=0, init=False)
    _found: dict[ComponentVersion, msgspec.Raw] = field(default_factory=dict, init=False)
    _problems: dict[ComponentVersion, str] = field(default_factory=dict, init=False)
    _tried: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _controller: Controller[ComponentVersion] = field(init=False)

    def __post_init__(self) -> None:
        self._controller = Controller("descriptor", self.reconcile, concurrency=AT_ONCE)
        self.templates.on_change(self._template_changed)
        self.releases.on_change(self._release_changed)

    async def run(self) -> None:
        """Look descriptors up until cancelled."""
        await self._controller.run()

    async def wait_tried(self, timeout_seconds: float) -> None:
        """Wait until every descriptor was looked up once, but no longer than so many seconds.

        Who decides on the fleet before that takes every module for one that can't be installed.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                while any(map(self._is_untried, self.templates.cache.list())):
                    await self._tried.wait()
                    self._tried.clear()

    def found(self, template: ModuleTemplate) -> msgspec.Raw | None:
        """Return the descriptor that was found for a template; None where there is none, or it has its own."""
        wanted = self._wanted(template)
        return self._found.get(wanted) if wanted is not None else None

    def problem(self, template: ModuleTemplate) -> str | None:
        """Return why a template has no descriptor; None where it has one."""
        if not is_left_out(template.spec.descriptor):
            return None
        wanted = self._wanted(template)
        if wanted is None:
            return f"spec.descriptor is empty, and no ModuleReleaseMeta names {module_of(template)}'s ocmComponentName"
        if wanted in self._found:
            return None
        return f"spec.descriptor is empty: {self._problems.get(wanted, f'{wanted} is being looked up')}"

    async def reconcile(self, wanted: ComponentVersion) -> Result:
        """Look one descriptor up, unless it is known already; forget it where no template stands for it."""
        try:
            return await self._look_up(wanted)
        finally:
            self._tried.set()

    async def _look_up(self, wanted: ComponentVersion) -> Result:
        templates = [each for each in self.templates.cache.list() if self._wanted(each) == wanted]
        if not templates:
            self._found.pop(wanted, None)
            self._problems.pop(wanted, None)
            return Result()
        if wanted in self._found:
            return Result()
        try:
            self._found[wanted] = await self.find(wanted)
        except LookupFailed as error:
            if self._problems.get(wanted) != str(error):
                self._problems[wanted] = str(error)
                log.warning("descriptor not found", component=wanted.component, version=wanted.version, why=str(error))
                self._tell(templates)
            return Result(requeue_after=error.again_after_seconds)
        self._problems.pop(wanted, None)
        log.info("descriptor found", component=wanted.component, version=wanted.version)
        self._tell(templates)
        return Result()

    def _is_untried(self, template: ModuleTemplate) -> bool:
        wanted = self._wanted(template)
        return wanted is not None and wanted not in self._found and wanted not in self._problems

    def _tell(self, templates: list[ModuleTemplate]) -> None:
        self.changes += 1
        for template in templates:
            self.on_news(template)

    def _wanted(self, template: ModuleTemplate) -> ComponentVersion | None:
        """Return what a template stands for; None where it has its descriptor, or nothing says which component."""
        if not is_left_out(template.spec.descriptor):
            return None
        module, version = module_of(template), version_of(template)
        for release in self.releases.cache.list():
            if release.spec.module_name == module and release.spec.ocm_component_name and version:
                return ComponentVersion(release.spec.ocm_component_name, version)
        return None

    def _template_changed(self, change: Change[ModuleTemplate]) -> None:
        for template in (change.old, change.new):
            if template is not None and (wanted := self._wanted(template)) is not None:
                self._controller.queue.add(wanted)

    def _release_changed(self, change: Change[DatedReleaseMeta]) -> None:
        modules = {each.spec.module_name for each in (change.old, change.new) if each is not None}
        for template in self.templates.cache.list():
            if module_of(template) in modules and (wanted := self._wanted(template)) is not None:
                self._controller.queue.add(wanted)
        for known in (*self._found, *self._problems):
            self._controller.queue.add(known)


def _tell_nobody(_template: ModuleTemplate) -> None:
    """Leave it at that: nothing was decided by what is known yet."""
