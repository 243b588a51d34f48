"""Verifies the descriptors of the modules whose ModulePolicy asks for signatures, and remembers the verdicts.

A descriptor without a verdict counts as unverified, so that nothing is installed before it is known. Installed versions
stay. A verdict is about one text of a descriptor of one module; it is found again when that, the policy or the Secret
with the keys changes, and at an interval, since certificates expire. Every replica verifies all of them.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Protocol

import msgspec
import structlog

from kube_runtime import (
    Causes,
    Change,
    Controller,
    Informer,
    KubeError,
    Manager,
    NotFound,
    ObjectKey,
    Result,
    parse_aside,
)
from kyma_oci import Component, ComponentVersion, FoundDescriptor, LookupFailed, is_left_out
from kyma_oci.signatures.cosign import Cosigned
from kyma_oci.signatures.keys import TrustedKey
from kyma_oci.signatures.normal_form import Unverified
from lifecycle_manager.contract.changes import versions
from lifecycle_manager.contract.resources import MODULE_POLICIES, MODULE_TEMPLATES, SECRETS, Secret
from lifecycle_manager.contract.signals import DescriptorFound
from lifecycle_manager.module_catalog.affected import offer_changed
from lifecycle_manager.module_catalog.identity import module_of
from lifecycle_manager.module_catalog.template_status import TemplateStatuses
from lifecycle_manager.module_catalog.verdicts import (
    Asked,
    Evidence,
    Verification,
    condition_of,
    is_cosigned,
    needs_cosign,
    problem_of,
    status_with,
    trusted_keys,
    verdict_on,
)
from lifecycle_manager.skr.access import OUR_SECRETS
from lifecycle_manager_api import ModulePolicy, ModulePolicySpec, ModuleTemplate, names

log = structlog.get_logger("module_catalog")

RECHECK_SECONDS = 600.0
"""How soon a certificate that has expired is noticed."""
WRITE_AGAIN_SECONDS = 5.0


class ComponentRegistry(Protocol):
    """The registry of the modules' components."""

    async def descriptor(self, wanted: ComponentVersion, pinned: str = "") -> FoundDescriptor:
        """Return the descriptor of a component's version; the one with a digest if given. Raises LookupFailed."""

    async def cosigned(self, wanted: ComponentVersion, digest: str) -> tuple[Cosigned, ...]:
        """Return what cosign signed for the digest of a component. Raises LookupFailed and Unverified."""


@dataclass(frozen=True, slots=True)
class LookedUp:
    """A descriptor that was found in the registry, for which component, and the digest of its artifact."""

    wanted: ComponentVersion
    descriptor: msgspec.Raw
    digest: str


@dataclass(eq=False, slots=True)
class VerificationState:
    """The verdict on a template's descriptor, and what cosign signed for a digest."""

    verdict: Verification | None = None
    cosigned: tuple[str, tuple[Cosigned, ...]] = ("", ())


@dataclass(eq=False)
class Verifications:
    """The verdicts on templates. `changes` counts new ones; `looked_up` returns a descriptor that a template omits."""

    manager: Manager
    templates: Informer[ModuleTemplate]
    statuses: TemplateStatuses
    looked_up: Callable[[ModuleTemplate], LookedUp | None]
    registry: ComponentRegistry
    start_seconds: float
    changes: int = field(default=0, init=False)
    _policies: Informer[ModulePolicy] = field(init=False)
    _secrets: Informer[Secret] = field(init=False)
    _controller: Controller[ObjectKey, VerificationState] = field(init=False)

    def __post_init__(self) -> None:
        self._policies = self.manager.informer(MODULE_POLICIES, namespace=names.KCP_NAMESPACE)
        self._secrets = self.manager.informer(SECRETS, label_selector=OUR_SECRETS)
        self._controller = self.manager.controller(
            "verification",
            state=VerificationState,
            owner=lambda _: "",
            exists=lambda key: self.templates.get(key) is not None,
        )
        self._controller.watches(self.templates, to=self._of_template, when=offer_changed)
        self._controller.watches(self._policies, to=self._of_policy, when=verification_changed)
        self._controller.watches(self._secrets, to=self._of_secret)
        self._controller.receives(DescriptorFound, to=self._of_descriptor)
        self._controller.reconciles(self._verify)
        self.manager.before_start(self._verify_all)

    @property
    def version(self) -> tuple[int, int]:
        """A value that differs whenever `of` may return something else."""
        return self.changes, self._policies.cache.changes

    def of(
        self, templates: Iterable[ModuleTemplate], found: Mapping[str, msgspec.Raw]
    ) -> tuple[dict[str, Component], dict[str, str]]:
        """Return the components to install, and why the others may not be, by the name of the template.

        `found` are the descriptors that were looked up. Templates without an entry need no signature.
        """
        verified: dict[str, Component] = {}
        refused: dict[str, str] = {}
        for each in templates:
            spec, name = self._spec_for(each), each.metadata.name
            is_awaited = is_left_out(each.spec.descriptor) and name not in found  # there is a problem for it already
            if spec is None or spec.verify != "enforce" or is_awaited:
                continue
            state = self._controller.state(MODULE_TEMPLATES.key_of(each))
            verdict = state.verdict if state is not None else None
            present = _asked_of(each, spec), bytes(found.get(name, each.spec.descriptor))
            if verdict is None or (verdict.asked, verdict.descriptor) != present:
                refused[name] = "its signature is being verified"
            elif verdict.component is None or problem_of(each, verdict):
                refused[name] = f"it is not signed as its ModulePolicy requires: {problem_of(each, verdict)}"
            else:
                verified[name] = verdict.component
        return verified, refused

    async def _verify_all(self) -> None:
        """Verify every descriptor once, for `start_seconds` at most; the controller continues from there."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.start_seconds):
                for each in self.templates.cache.list():
                    if self._spec_for(each) is not None:
                        await self._controller.reconcile_now(MODULE_TEMPLATES.key_of(each))

    async def _verify(self, key: ObjectKey, _causes: Causes, state: VerificationState) -> Result:
        template = self.templates.get(key)
        if template is None:
            return Result()
        spec, again = self._spec_for(template), RECHECK_SECONDS
        verdict = None
        if spec is not None:
            try:
                verdict = await self._verdict(template, spec, state)
            except LookupFailed as error:
                again = error.again_after_seconds
                problem = f"its signatures by cosign can't be read: {error}"
                verdict = Verification(_asked_of(template, spec), self._descriptor(template), problem=problem)
        if verdict != state.verdict:
            state.verdict = verdict
            self.changes += 1
            if verdict is not None and (why := problem_of(template, verdict)):
                log.warning("module not verified", template=template.metadata.name, why=why)
            self.manager.publish(DescriptorFound(key.namespace, key.name))
        try:
            await self.statuses.write(template, partial(status_with, verdict=verdict, now=self.manager.clock.now()))
        except NotFound:
            pass  # the template is gone, or its CRD has no status
        except KubeError as error:
            log.warning("verdict not recorded", template=template.metadata.name, why=str(error))
            return Result(requeue_after=WRITE_AGAIN_SECONDS)
        return Result(requeue_after=again if spec is not None else None)

    async def _verdict(
        self, template: ModuleTemplate, spec: ModulePolicySpec, state: VerificationState
    ) -> Verification | None:
        """Return the verdict on a template, None where its descriptor is not known. Raises LookupFailed."""
        evidence = Evidence(template.spec.descriptor)
        found = self.looked_up(template) if is_left_out(template.spec.descriptor) else None
        if found is not None:
            evidence = Evidence(found.descriptor, found.digest)
        elif is_left_out(template.spec.descriptor):
            return None
        now, size = self.manager.clock.now(), len(bytes(evidence.descriptor))
        try:
            keys = trusted_keys(spec, self._secrets.get(ObjectKey(names.KCP_NAMESPACE, spec.verification_secret)))
            if found is not None and await parse_aside(size, needs_cosign, evidence, keys, now):
                evidence = evidence._replace(cosigned=await self._cosigned(found, state, keys, now))
        except Unverified as problem:
            return Verification(_asked_of(template, spec), bytes(evidence.descriptor), problem=str(problem))
        return await parse_aside(size, verdict_on, _asked_of(template, spec), evidence, keys, now)

    async def _cosigned(
        self, found: LookedUp, state: VerificationState, keys: Collection[TrustedKey], now: datetime
    ) -> tuple[Cosigned, ...]:
        """Return what cosign signed for a digest, which is not asked for again while one is by a trusted key."""
        digest, known = state.cosigned
        if digest != found.digest or not is_cosigned(digest, known, keys, now):
            state.cosigned = found.digest, await self.registry.cosigned(found.wanted, found.digest)
        return state.cosigned[1]

    def _descriptor(self, template: ModuleTemplate) -> bytes:
        found = self.looked_up(template)
        return bytes(found.descriptor if found is not None else template.spec.descriptor)

    def _spec_for(self, template: ModuleTemplate) -> ModulePolicySpec | None:
        """Return the policy of a template's module if it asks for signatures."""
        policy = self._policies.get(ObjectKey(names.KCP_NAMESPACE, module_of(template)))
        return policy.spec if policy is not None and policy.spec.verify != "off" else None

    def _of_template(self, change: Change[ModuleTemplate]) -> Iterable[ObjectKey]:
        """Return the key of a template that needs a verdict, or needs none any more."""
        if change.new is not None and (self._spec_for(change.new) is not None or condition_of(change.new) is not None):
            yield MODULE_TEMPLATES.key_of(change.new)

    def _of_descriptor(self, found: DescriptorFound) -> Iterable[ObjectKey]:
        key = ObjectKey(found.namespace, found.template)
        template = self.templates.get(key)
        return (key,) if template is not None and self._spec_for(template) is not None else ()

    def _of_policy(self, change: Change[ModulePolicy]) -> Iterable[ObjectKey]:
        return self._of_modules({each.metadata.name for each in versions(change)})

    def _of_secret(self, change: Change[Secret]) -> Iterable[ObjectKey]:
        changed = {each.metadata.name for each in (change.old, change.new) if each is not None}
        policies = self._policies.cache.list()
        return self._of_modules({each.metadata.name for each in policies if each.spec.verification_secret in changed})

    def _of_modules(self, modules: set[str]) -> Iterable[ObjectKey]:
        templates = self.templates.cache.list() if modules else ()
        return [MODULE_TEMPLATES.key_of(each) for each in templates if module_of(each) in modules]


def verification_changed(change: Change[ModulePolicy]) -> bool:
    """Tell whether a policy asks for other signatures than before."""
    nothing = ModulePolicySpec()
    old, new = (each.spec if each is not None else nothing for each in (change.old, change.new))
    return (old.verify, old.verification_secret) != (new.verify, new.verification_secret)


def _asked_of(template: ModuleTemplate, spec: ModulePolicySpec) -> Asked:
    return Asked(module_of(template), spec.verification_secret, spec.verify)
