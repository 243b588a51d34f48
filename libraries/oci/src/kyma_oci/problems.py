"""Why content can't be pulled or pushed: each error with the reason for a condition, by default its own name."""

from typing import Any, ClassVar

import msgspec

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding JSON of unknown content raises."""


class SourceError(Exception):
    """What is in a registry can't be read or written; the message says what to check.

    A source is not requested again for `again_after_seconds`: thousands of clusters may have it.
    """

    reason: ClassVar[str] = "SourceError"
    again_after_seconds: float = 15.0

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.reason = cls.__dict__.get("reason", cls.__name__)


class SourceInvalid(SourceError):
    """The source is not a repository, or not named by a digest."""


class SourceNotAllowed(SourceError):
    """A host that is not among the allowed ones."""

    again_after_seconds = 60.0


class CredentialsInvalid(SourceError):
    """The Secret with the registry's credentials is missing or unreadable."""

    again_after_seconds = 5.0


class SourceUnreachable(SourceError):
    """No answer, a timeout, or a server error."""


class RegistryBusy(SourceError):
    """429, too many requests; the registry says when to try again."""

    def __init__(self, message: str, again_after_seconds: float) -> None:
        super().__init__(message)
        self.again_after_seconds = again_after_seconds


class AccessRefused(SourceError):
    """401 or 403: the registry requires credentials, or other ones."""

    reason = "RegistryAccessRefused"


class LayerNotFound(SourceError):
    """404: the repository has no such layer, or hides it from these credentials."""


class DigestMismatch(SourceError):
    """The content has another digest."""


class LayerTruncated(SourceError):
    """The content is truncated or corrupt."""


class LayerTooLarge(SourceError):
    """More bytes, files or values than any module has."""


class ArchiveUnsafe(SourceError):
    """A tar with links, devices, or paths that lead out of it."""


class PushRefused(SourceError):
    """The registry does not take what is pushed; the message has its answer."""
