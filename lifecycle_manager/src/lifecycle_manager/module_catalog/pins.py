"""Which descriptor in the registry stands for a template that leaves it empty: the one that was seen first.

A tag in a registry can be moved by everybody who may push there. So the digest of what it named first is recorded in
the status of the ModuleTemplate, which Lifecycle Manager alone writes, before anything is installed: replicas agree,
and a restart keeps it. A tag that names something else by then is reported in the condition `DescriptorPinned`. A
ModuleTemplate that is deleted and created again has no record.
"""

from collections.abc import Iterable
from datetime import datetime

from msgspec import structs

from kyma_oci import ComponentVersion, FoundDescriptor
from lifecycle_manager_api import ModuleTemplate, ModuleTemplateStatus, PinnedDescriptor
from lifecycle_manager_api.conditions import NewCondition, set_conditions

PINNED = "DescriptorPinned"
TAG_MOVED = "TagMoved"


def pin_of(template: ModuleTemplate, wanted: ComponentVersion) -> str:
    """Return the digest that is recorded for a component's version; "" where there is none."""
    pin = template.status.pinned_descriptor
    return pin.digest if pin is not None and (pin.component, pin.version) == wanted else ""


def pin_among(templates: Iterable[ModuleTemplate], wanted: ComponentVersion) -> str:
    """Return the digest that is recorded in the oldest of the templates with a record."""
    oldest = sorted(templates, key=lambda it: (str(it.metadata.creation_timestamp), it.metadata.name))
    return next(filter(None, (pin_of(each, wanted) for each in oldest)), "")


def status_with(
    template: ModuleTemplate, wanted: ComponentVersion, found: FoundDescriptor, now: datetime
) -> ModuleTemplateStatus:
    """Return the status of a template for which a descriptor stands."""
    condition: NewCondition = (PINNED, "True", PINNED, f"{wanted} is {found.digest}")
    if found.tagged and found.tagged != found.digest:
        message = (
            f"{wanted} is {found.digest}, as seen first; its tag names {found.tagged} by now, which is not installed. "
            "To install it, delete the ModuleTemplate and create it again"
        )
        condition = (PINNED, "False", TAG_MOVED, message)
    pin = PinnedDescriptor(component=wanted.component, version=wanted.version, digest=found.digest)
    conditions = set_conditions(template.status.conditions, [condition], template.metadata.generation, now)
    return structs.replace(template.status, pinned_descriptor=pin, conditions=conditions)
