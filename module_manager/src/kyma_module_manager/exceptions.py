"""What can go wrong in a Module Manager, and what happens then.

ModuleManagerError
├── DeclarationError             the manager itself is wrong: it does not start
├── ControlPlaneUnreadable       what is there could not be read in time
├── LeadershipLost               another process leads now: this one ends, and is started anew
└── SyncFailed                   one ModuleConfig could not be turned into objects
    ├── RenderingFailed          the function raised: said in a condition and tried again with backoff
    └── PermanentError           trying again is of no use: said in a condition, tried on the next change
        ├── ModuleCrUnreadable   the Module CR is no YAML or does not fit the type
        └── ObjectsRefused       what the function returned cannot become a SyncResource
"""

__all__ = [
    "ControlPlaneUnreadable",
    "DeclarationError",
    "LeadershipLost",
    "ModuleCrUnreadable",
    "ModuleManagerError",
    "ObjectsRefused",
    "PermanentError",
    "RenderingFailed",
    "SyncFailed",
]


class ModuleManagerError(Exception):
    """Root of everything that this package raises on its own account."""


class DeclarationError(ModuleManagerError):
    """The manager is declared wrongly, or what was named on the command line is none."""


class ControlPlaneUnreadable(ModuleManagerError):
    """The ModuleConfigs could not be listed within the time for it."""


class LeadershipLost(ModuleManagerError):
    """This process was the leader and could not renew its lease."""


class SyncFailed(ModuleManagerError):
    """One ModuleConfig could not be turned into objects; `reason` is the condition's reason."""

    reason = "SyncFailed"

    def __init__(self, message: str, *, reason: str | None = None) -> None:
        super().__init__(message)
        if reason is not None:
            self.reason = reason


class RenderingFailed(SyncFailed):
    """The module's function raised an exception of its own or took too long."""

    reason = "RenderingFailed"


class PermanentError(SyncFailed):
    """Raise it in a sync function when only a change of the Module CR can help.

    Its message is what the user reads in the condition, and `reason` (a CamelCase word) the condition's
    reason.
    """

    reason = "Refused"


class ModuleCrUnreadable(PermanentError):
    """The text in the ModuleConfig is not YAML, or does not fit the type that the manager asks for."""

    reason = "ModuleCRUnreadable"


class ObjectsRefused(PermanentError):
    """A returned object has no identity or comes twice, or all together do not fit into one SyncResource."""

    reason = "ObjectsRefused"
