"""Whether somebody who is trusted vouches for a version of a module: pure functions.

A signature by OCM is in the descriptor itself, one by cosign is for the artifact in the registry that holds it. Either
is enough. The verdict has the component that is installed, made of what was hashed (`kyma_oci.signatures.content`), and
holds for the text and the module that it was found for. The descriptor does not cover the rest of a ModuleTemplate,
such as the default Module CR.
"""

import base64
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import msgspec

from kyma_oci import Component
from kyma_oci.descriptor import RAW_MANIFEST
from kyma_oci.signatures.content import signed_component
from kyma_oci.signatures.cosign import Cosigned, verify_cosigned
from kyma_oci.signatures.descriptors import verify
from kyma_oci.signatures.keys import KeyUnreadable, TrustedKey, keys_in
from kyma_oci.signatures.normal_form import Unverified
from lifecycle_manager.contract.resources import Secret
from lifecycle_manager.module_catalog.offer import link_of
from lifecycle_manager_api import Condition, ModulePolicySpec, ModuleTemplate, ModuleTemplateStatus, find, names
from lifecycle_manager_api.conditions import NewCondition, set_conditions

VERIFIED, UNVERIFIED = "DescriptorVerified", "DescriptorUnverified"


class Evidence(NamedTuple):
    """A descriptor, the digest under which a registry has it, and what cosign signed.

    The digest is "" where the descriptor was not looked up.
    """

    descriptor: msgspec.Raw
    digest: str = ""
    cosigned: tuple[Cosigned, ...] = ()


class Asked(NamedTuple):
    """What is asked for: the signature of a module by the keys in a Secret, and whether it is required."""

    module: str
    secret: str
    verify: str


@dataclass(frozen=True, slots=True)
class Verification:
    """The verdict on a descriptor: the component that is signed as asked, or the problem."""

    asked: Asked
    descriptor: bytes
    component: Component | None = None
    problem: str = ""


def trusted_keys(spec: ModulePolicySpec, secret: Secret | None) -> tuple[TrustedKey, ...]:
    """Return the keys that may sign a module. Raises Unverified."""
    where = f"{names.KCP_NAMESPACE}/{spec.verification_secret}"
    if secret is None:
        label = f"{names.MANAGED_BY}={names.LIFECYCLE_MANAGER}"
        raise Unverified(f"there is no Secret {where} with the label {label}, which the ModulePolicy names")
    try:
        return keys_in({name: base64.b64decode(value) for name, value in secret.data.items()})
    except (KeyUnreadable, ValueError) as error:
        raise Unverified(f"Secret {where}: {error}") from None


def needs_cosign(evidence: Evidence, keys: Collection[TrustedKey], now: datetime) -> bool:
    """Tell whether only a signature by cosign can prove something."""
    try:
        verify(bytes(evidence.descriptor), keys, now)
    except Unverified:
        return bool(evidence.digest)
    return False


def is_cosigned(digest: str, signed: Collection[Cosigned], keys: Collection[TrustedKey], now: datetime) -> bool:
    """Tell whether one of cosign's signatures of a digest is by a trusted key."""
    try:
        verify_cosigned(digest, signed, keys, now)
    except Unverified:
        return False
    return True


def verdict_on(asked: Asked, evidence: Evidence, keys: Collection[TrustedKey], now: datetime) -> Verification:
    """Return the verdict on a descriptor."""
    descriptor = bytes(evidence.descriptor)
    try:
        _verify(evidence, keys, now)
        return Verification(asked, descriptor, signed_component(descriptor))
    except Unverified as problem:
        return Verification(asked, descriptor, problem=str(problem))


def _verify(evidence: Evidence, keys: Collection[TrustedKey], now: datetime) -> None:
    try:
        verify(bytes(evidence.descriptor), keys, now)
    except Unverified as problem:
        if not evidence.digest:
            raise
        try:
            verify_cosigned(evidence.digest, evidence.cosigned, keys, now)
        except Unverified as by_cosign:
            raise Unverified(f"{problem}; {by_cosign}") from None


def problem_of(template: ModuleTemplate, verdict: Verification) -> str:
    """Return why a template may not be installed; "" where all that it installs is signed."""
    if verdict.component is not None and RAW_MANIFEST not in verdict.component.layers and link_of(template) is not None:
        return "its objects are behind a link of spec.resources, which no signature covers"
    return verdict.problem


def is_unverified(template: ModuleTemplate) -> bool:
    """Tell whether the last verdict on a template was that it is not signed as it has to be."""
    condition = condition_of(template)
    return condition is not None and condition.status == "False"


def condition_of(template: ModuleTemplate) -> Condition | None:
    """Return what is recorded of the last verdict on a template."""
    return find(template.status.conditions, VERIFIED)


def status_with(template: ModuleTemplate, verdict: Verification | None, now: datetime) -> ModuleTemplateStatus:
    """Return the status of a template with a verdict; None for one that nobody asks for."""
    present = template.status
    if verdict is None:
        others = tuple(each for each in present.conditions if each.type != VERIFIED)
        return msgspec.structs.replace(present, conditions=others)
    if problem := problem_of(template, verdict):
        message = (
            f"{problem}. Have the component signed by a key in the Secret that the ModulePolicy names, "
            "for example by klm module package --sign"
        )
        condition: NewCondition = (VERIFIED, "False", UNVERIFIED, message)
    else:
        condition = (VERIFIED, "True", VERIFIED, "the component is signed by a trusted key")
    conditions = set_conditions(present.conditions, [condition], template.metadata.generation, now)
    return msgspec.structs.replace(present, conditions=conditions)
