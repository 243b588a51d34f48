"""The exceptions of a Module Manager.

ModuleManagerError
├── DeclarationError             the manager is not declared correctly: it does not start
├── ControlPlaneUnreadable       the ModuleConfigs could not be read in time
└── SyncFailed                   a ModuleConfig could not be turned into objects
    ├── RenderingFailed          the function failed: reported in a condition, and retried with backoff
    └── PermanentError           a retry cannot help: reported in a condition, and retried on the next change
        ├── ModuleCrUnreadable   the Module CR is not valid YAML, or does not match the type
        ├── ObjectsRefused       the returned objects cannot become a SyncResource
        └── StatusRefused        the returned fields cannot be a part of the Module CR's status
"""


class ModuleManagerError(Exception):
    """Base of all exceptions of this package."""


class DeclarationError(ModuleManagerError):
    """A manager is not declared correctly, or the command line does not name one."""


class ControlPlaneUnreadable(ModuleManagerError):
    """The ModuleConfigs could not be listed in time."""


class SyncFailed(ModuleManagerError):
    """One ModuleConfig could not be turned into objects; `reason` is the condition's reason."""

    reason = "SyncFailed"

    def __init__(self, message: str, *, reason: str | None = None) -> None:
        super().__init__(message)
        if reason is not None:
            self.reason = reason


class RenderingFailed(SyncFailed):
    """The module's function raised an exception or timed out."""

    reason = "RenderingFailed"


class PermanentError(SyncFailed):
    """Raise it in a module's function if only a change of the Module CR can help.

    The condition gets its message and its `reason`, a word in CamelCase.
    """

    reason = "Refused"


class ModuleCrUnreadable(PermanentError):
    """The Module CR in the ModuleConfig is not valid YAML, or does not match the manager's type."""

    reason = "ModuleCRUnreadable"


class ObjectsRefused(PermanentError):
    """A returned object is incomplete or a duplicate, or all objects together are too large for a SyncResource."""

    reason = "ObjectsRefused"


class StatusRefused(PermanentError):
    """The returned fields for the status of the Module CR are no object, too large, or Lifecycle Manager's own."""

    reason = "StatusRefused"
