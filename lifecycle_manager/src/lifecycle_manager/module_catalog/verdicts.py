"""Whether somebody who is trusted vouches for a version of a module: pure functions.

A signature by OCM is in the descriptor itself, one by cosign is for the artifact in the registry that holds it. Either
is enough. What is installed then has to be named by the digests that are signed: layers are, images get them, and
that of a link is not. The descriptor does not cover the rest of a ModuleTemplate, such as the default Module CR.
"""

import base64
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import msgspec

from kyma_oci import DescriptorUnreadable, component_of
from kyma_oci.descriptor import RAW_MANIFEST
from kyma_oci.signatures import (
    Cosigned,
    KeyUnreadable,
    TrustedKey,
    Unverified,
    keys_in,
    pinned,
    verify,
    verify_cosigned,
)
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


@dataclass(frozen=True, slots=True)
class Verification:
    """The verdict on a descriptor: the problem, "" for none, and then the descriptor with all images by digest."""

    descriptor: bytes
    problem: str = ""
    pinned: msgspec.Raw | None = None


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


def verdict_on(
    template: ModuleTemplate, evidence: Evidence, keys: Collection[TrustedKey], now: datetime
) -> Verification:
    """Return the verdict on the descriptor of a template."""
    descriptor = bytes(evidence.descriptor)
    try:
        _verify(evidence, keys, now)
        _check_template(template, evidence.descriptor)
        return Verification(descriptor, pinned=pinned(evidence.descriptor))
    except (DescriptorUnreadable, Unverified) as problem:
        return Verification(descriptor, str(problem))


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


def _check_template(template: ModuleTemplate, descriptor: msgspec.Raw) -> None:
    """Raise Unverified where a template installs something else than the component. Raises DescriptorUnreadable."""
    component = component_of(descriptor)
    if template.spec.version and template.spec.version != component.version:
        raise Unverified(f"spec.version is {template.spec.version}, and the descriptor is of {component.version}")
    if RAW_MANIFEST not in component.layers and link_of(template) is not None:
        raise Unverified("its objects are behind a link of spec.resources, which no signature covers")


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
    if verdict.problem:
        message = (
            f"{verdict.problem}. Have the component signed by a key in the Secret that the ModulePolicy names, "
            "for example by klm module package --sign"
        )
        condition: NewCondition = (VERIFIED, "False", UNVERIFIED, message)
    else:
        condition = (VERIFIED, "True", VERIFIED, "the component is signed by a trusted key")
    conditions = set_conditions(present.conditions, [condition], template.metadata.generation, now)
    return msgspec.structs.replace(present, conditions=conditions)
