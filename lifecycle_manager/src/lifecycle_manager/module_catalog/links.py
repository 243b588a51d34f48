"""What is behind the link to a template's objects: the content that was seen first.

Whoever may change the file behind a link would else change every cluster. So the digest of its content is recorded in
the status of the ModuleTemplate, which Lifecycle Manager alone writes, before anything is installed, and Manifests name
it. Another content of the same version is refused, and reported in the condition `LinkPinned`.
"""

from datetime import datetime

from msgspec import structs

from lifecycle_manager.module_catalog.identity import version_of
from lifecycle_manager.module_catalog.offer import link_of, link_pin_of
from lifecycle_manager_api import ModuleTemplate, ModuleTemplateStatus, PinnedLink
from lifecycle_manager_api.conditions import NewCondition, set_conditions

PINNED, CHANGED, UNREADABLE = "LinkPinned", "LinkChanged", "LinkUnreadable"


def pinned_for(template: ModuleTemplate) -> tuple[str, str | None, str]:
    """Return what the content of a link is read for."""
    return template.metadata.uid, link_of(template), version_of(template)


def status_with(template: ModuleTemplate, *, digest: str, problem: str, now: datetime) -> ModuleTemplateStatus:
    """Return the status of a template whose link has a content with this digest; "" where it can't be read."""
    present, link, version = template.status, link_of(template) or "", version_of(template)
    pin = link_pin_of(template) or digest
    if not digest:
        condition: NewCondition = (PINNED, "False", UNREADABLE, problem)
    elif digest != pin:
        message = (
            f"{link} is {digest} by now, which is not installed: version {version} is {pin}, as seen first. "
            "Publish another version, or delete the ModuleTemplate and create it again"
        )
        condition = (PINNED, "False", CHANGED, message)
    else:
        condition = (PINNED, "True", PINNED, f"{link} is {digest}")
    conditions = set_conditions(present.conditions, [condition], template.metadata.generation, now)
    pinned = PinnedLink(url=link, version=version, digest=pin) if pin else None
    return structs.replace(present, pinned_link=pinned, conditions=conditions)
