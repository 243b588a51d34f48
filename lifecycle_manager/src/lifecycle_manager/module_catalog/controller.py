"""Lookup of the component descriptors that ModuleTemplates leave empty, in the registry of the modules' components.

A ModuleTemplate whose `spec.descriptor` is empty stands for the component that its module's ModuleReleaseMeta names by
`ocmComponentName`, in the template's version. What was found first stands for it from then on (`pins`), and is not
looked up again while a template stands for it. Every replica looks all of them up. A lookup that fails is reported
where the module would be installed, and retried. Descriptors that have to be signed are verified (`verification`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec
import structlog

from kube_runtime import Causes, Change, Controller, Informer, KubeError, Manager, NotFound, Result
from kyma_oci import ComponentVersion, FoundDescriptor, LookupFailed, is_left_out
from lifecycle_manager.contract.changes import versions
from lifecycle_manager.contract.resources import DATED_RELEASE_METAS, MODULE_TEMPLATES, DatedReleaseMeta
from lifecycle_manager.contract.signals import DescriptorFound
from lifecycle_manager.module_catalog import templates as template_reports
from lifecycle_manager.module_catalog.identity import module_of, version_of
from lifecycle_manager.module_catalog.offer import Offer, claim_of
from lifecycle_manager.module_catalog.pins import pin_among, pin_of, status_with
from lifecycle_manager.module_catalog.template_status import TemplateStatuses
from lifecycle_manager.module_catalog.verification import ComponentRegistry, LookedUp, Verifications
from lifecycle_manager_api import ModuleTemplate, ModuleTemplateStatus, names

log = structlog.get_logger("module_catalog")

CONCURRENCY = 4
START_SECONDS = 30.0
"""How long the start waits for descriptors. Without them, modules seem impossible to install."""

PIN_AGAIN_SECONDS = 5.0
"""How soon it is tried again to record which descriptor was found."""


@dataclass(eq=False, slots=True)
class LookupState:
    """The result of the last lookup of one component's version: a descriptor, a problem, or neither yet."""

    found: LookedUp | None = None
    problem: str = ""


@dataclass(eq=False)
class Offers:
    """The current offer, indexed once for each state of the caches."""

    templates: Informer[ModuleTemplate]
    releases: Informer[DatedReleaseMeta]
    lookups: "Lookups | None" = None
    verifications: Verifications | None = None
    restricted: frozenset[str] = frozenset()
    namespace: str = names.SKR_NAMESPACE
    _known: tuple[tuple[object, ...], Offer] | None = field(default=None, init=False)

    def current(self) -> Offer:
        results = self.lookups.changes if self.lookups is not None else 0
        verdicts = self.verifications.version if self.verifications is not None else (0, 0)
        state = (self.templates.cache.changes, self.releases.cache.changes, results, verdicts)
        if self._known is None or self._known[0] != state:
            templates = self.templates.cache.list()
            found, problems = self.lookups.of(templates) if self.lookups is not None else ({}, {})
            verified, unverified = (
                self.verifications.of(templates, found) if self.verifications is not None else ({}, {})
            )
            self._known = (
                state,
                Offer.of(
                    templates,
                    self.releases.cache.list(),
                    found,
                    problems,
                    verified=verified,
                    unverified=unverified,
                    restricted=self.restricted,
                    namespace=self.namespace,
                ),
            )
        return self._known[1]


def setup(
    manager: Manager,
    registry: ComponentRegistry,
    fetch: Callable[[str], Awaitable[str]],
    *,
    restricted: Iterable[str] = (),
    namespace: str = names.SKR_NAMESPACE,
    start_seconds: float = START_SECONDS,
) -> Offers:
    """Add the controllers of descriptors and templates; return the offers of the catalog. `fetch` reads a link."""
    templates = manager.informer(MODULE_TEMPLATES)
    releases = manager.informer(DATED_RELEASE_METAS)
    statuses = TemplateStatuses(manager.client, templates)
    lookups = Lookups(manager, templates, releases, statuses, registry, start_seconds)
    verifications = Verifications(manager, templates, statuses, lookups.found, registry, start_seconds)
    offers = Offers(templates, releases, lookups, verifications, frozenset(restricted), namespace)
    template_reports.setup(manager, statuses, fetch, offers.current)
    return offers


@dataclass(eq=False)
class Lookups:
    """The descriptors of templates that leave them empty. `changes` counts new results."""

    manager: Manager
    templates: Informer[ModuleTemplate]
    releases: Informer[DatedReleaseMeta]
    statuses: TemplateStatuses
    registry: ComponentRegistry
    start_seconds: float
    changes: int = field(default=0, init=False)
    _controller: Controller[ComponentVersion, LookupState] = field(init=False)

    def __post_init__(self) -> None:
        self._controller = self.manager.controller(
            "descriptor",
            state=LookupState,
            owner=lambda _: "",
            exists=lambda wanted: bool(self._templates_for(wanted)),
            concurrency=CONCURRENCY,
        )
        self._controller.watches(self.templates, to=lambda change: self._wanted_by(versions(change)))
        self._controller.watches(self.releases, to=self._of_release)
        self._controller.starts_with(self._all_wanted)
        self._controller.reconciles(self._look_up)
        self.manager.before_start(self._look_up_all)

    def of(self, templates: Iterable[ModuleTemplate]) -> tuple[dict[str, msgspec.Raw], dict[str, str]]:
        """Return the descriptors that were found, and why the others were not, by the name of the template."""
        empty = [each for each in templates if is_left_out(each.spec.descriptor)]
        results = {each.metadata.name: self._result(each) for each in empty}
        found = {name: result for name, result in results.items() if not isinstance(result, str)}
        return found, {name: result for name, result in results.items() if isinstance(result, str)}

    def found(self, template: ModuleTemplate) -> LookedUp | None:
        """Return the descriptor that stands for a template; None where none does, or it is not found (yet)."""
        wanted = self._wanted(template)
        state = self._controller.state(wanted) if wanted is not None else None
        return state.found if state is not None else None

    def _result(self, template: ModuleTemplate) -> msgspec.Raw | str:
        wanted = self._wanted(template)
        if wanted is None:
            return f"spec.descriptor is empty, and no ModuleReleaseMeta names {module_of(template)}'s ocmComponentName"
        state = self._controller.state(wanted) or LookupState()
        if state.found is not None:
            return state.found.descriptor
        return f"spec.descriptor is empty: {state.problem or f'{wanted} is being looked up'}"

    async def _look_up_all(self) -> None:
        """Look every descriptor up once, for `start_seconds` at most; the controller continues from there."""
        free = asyncio.Semaphore(CONCURRENCY)

        async def look_up(wanted: ComponentVersion) -> None:
            async with free:
                await self._controller.reconcile_now(wanted)

        with suppress(TimeoutError):
            async with asyncio.timeout(self.start_seconds), asyncio.TaskGroup() as tasks:
                for wanted in self._all_wanted():
                    tasks.create_task(look_up(wanted))

    async def _look_up(self, wanted: ComponentVersion, _causes: Causes, state: LookupState) -> Result:
        """Look one descriptor up, unless no template stands for it, or all that do have a record of what is known."""
        templates, known = self._templates_for(wanted), state.found
        if not templates or (known is not None and all(pin_of(each, wanted) == known.digest for each in templates)):
            return Result()
        try:
            found = await self._find_pinned(wanted, templates)
        except LookupFailed as error:
            self._failed(wanted, state, str(error))
            return Result(requeue_after=error.again_after_seconds)
        except KubeError as error:
            self._failed(wanted, state, f"the digest of {wanted} could not be recorded: {error}")
            return Result(requeue_after=PIN_AGAIN_SECONDS)
        state.found, state.problem = LookedUp(wanted, found.descriptor, found.digest), ""
        if state.found == known:
            return Result()  # a template that came later has a record, too
        log.info("descriptor found", component=wanted.component, version=wanted.version)
        self._publish(templates)
        return Result()

    def _failed(self, wanted: ComponentVersion, state: LookupState, problem: str) -> None:
        if state.problem != problem:
            state.problem = problem
            log.warning("descriptor not found", component=wanted.component, version=wanted.version, why=problem)
            self._publish(self._templates_for(wanted))

    async def _find_pinned(self, wanted: ComponentVersion, templates: Iterable[ModuleTemplate]) -> FoundDescriptor:
        """Return the descriptor that stands for templates, once each has a record of it.

        Raises LookupFailed and KubeError.
        """
        found = await self.registry.descriptor(wanted, pin_among(templates, wanted))
        for template in templates:
            digest = await self._record(template, wanted, found)
            if digest != found.digest:  # another replica was first
                found = await self.registry.descriptor(wanted, digest)
        return found

    async def _record(self, template: ModuleTemplate, wanted: ComponentVersion, found: FoundDescriptor) -> str:
        """Record a descriptor unless another one is recorded; return the digest of that on record. Raises KubeError."""

        def status_of(template: ModuleTemplate) -> ModuleTemplateStatus:
            if pin_of(template, wanted) not in {"", found.digest}:
                return template.status
            return status_with(template, wanted, found, self.manager.clock.now())

        try:
            return pin_of(await self.statuses.write(template, status_of), wanted)
        except NotFound:
            why = "no such ModuleTemplate, or a CRD of it without a status"
            log.warning("descriptor not pinned", template=template.metadata.name, why=why)
            return found.digest

    def _publish(self, templates: Iterable[ModuleTemplate]) -> None:
        self.changes += 1
        for template in templates:
            self.manager.publish(DescriptorFound(template.metadata.namespace, template.metadata.name))

    def _templates_for(self, wanted: ComponentVersion) -> tuple[ModuleTemplate, ...]:
        return tuple(each for each in self.templates.cache.list() if self._wanted(each) == wanted)

    def _all_wanted(self) -> Iterable[ComponentVersion]:
        return set(self._wanted_by(self.templates.cache.list()))

    def _wanted(self, template: ModuleTemplate) -> ComponentVersion | None:
        """Return what a template stands for; None where it has a descriptor, or no release names the component."""
        if not is_left_out(template.spec.descriptor):
            return None
        module = module_of(template)
        releases = [each for each in self.releases.cache.list() if each.spec.module_name == module]
        releases.sort(key=lambda each: (each.metadata.being_deleted, *claim_of(each)))  # first the one that counts
        found = (_version_by(release, template) for release in releases)
        return next((each for each in found if each is not None), None)

    def _wanted_by(self, templates: Iterable[ModuleTemplate]) -> Iterable[ComponentVersion]:
        return (wanted for each in templates if (wanted := self._wanted(each)) is not None)

    def _of_release(self, change: Change[DatedReleaseMeta]) -> Iterable[ComponentVersion]:
        """Return what the templates of the release's modules stand for now, and what they stood for by this release."""
        empty = [each for each in self.templates.cache.list() if is_left_out(each.spec.descriptor)]
        by_release = (_version_by(release, template) for release in versions(change) for template in empty)
        modules = {each.spec.module_name for each in versions(change)}
        present = self._wanted_by(each for each in empty if module_of(each) in modules)
        return {*present, *(each for each in by_release if each is not None)}


def _version_by(release: DatedReleaseMeta, template: ModuleTemplate) -> ComponentVersion | None:
    """Return the component's version that a template stands for by this release."""
    component, version = release.spec.ocm_component_name, version_of(template)
    if release.spec.module_name != module_of(template) or not component or not version:
        return None
    return ComponentVersion(component, version)
