"""Writes the status of ModuleTemplates, of which Lifecycle Manager alone is the author.

Several parts of it are found independently, and by every replica. So each write is of the version that was read, and
keeps what the others found.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kube_runtime import Client, Conflict, Informer, NotFound
from lifecycle_manager.contract.resources import MODULE_TEMPLATES
from lifecycle_manager.contract.writes import write_status
from lifecycle_manager_api import ModuleTemplate, ModuleTemplateStatus

ATTEMPTS = 5
"""How often a template that others write meanwhile is read again."""

Found = Callable[[ModuleTemplate], ModuleTemplateStatus]
"""Returns the status of a template with what was found; the very status that it has where nothing is new."""


@dataclass(frozen=True, eq=False)
class TemplateStatuses:
    """Writes to KCP, and to the cache of its informer."""

    kcp: Client
    templates: Informer[ModuleTemplate]

    async def write(self, template: ModuleTemplate, found: Found) -> ModuleTemplate:
        """Write what was found, unless it is there already; return the template. Raises KubeError."""
        for _ in range(ATTEMPTS):
            status = found(template)
            if status == template.status:
                return template
            try:
                written = await write_status(self.kcp, MODULE_TEMPLATES, template.metadata, status, as_read=True)
            except Conflict:  # another replica, or the module team
                template = await self._read_again(template)
                continue
            self.templates.wrote(written)
            return written
        raise Conflict(409, "Conflict", f"ModuleTemplate {template.metadata.name} changes all the time")

    async def _read_again(self, template: ModuleTemplate) -> ModuleTemplate:
        """Return a template as it is now. Raises NotFound, KubeError."""
        name, namespace = template.metadata.name, template.metadata.namespace
        found = await self.kcp.list(MODULE_TEMPLATES, namespace, field_selector=f"metadata.name={name}")
        if not found.items:
            raise NotFound(404, "NotFound", f"ModuleTemplate {name} is gone")
        self.templates.wrote(found.items[0])
        return found.items[0]
