"""What keeps the objects of a module from being had, each with the reason that a condition shows.

SourceError
├── SourceInvalid        what the Manifest says of its source names neither a layer nor a link
├── CredentialsInvalid   the Secret that is to hold the registry's credentials is missing or unreadable
├── SourceAwaited        it is being fetched for another, which takes long
├── SourceUnreachable    no answer, none in time, or one that says the server is broken
├── RegistryBusy         429: asked too often
├── AccessRefused        401 or 403
├── LayerNotFound        404
├── DigestMismatch       what came is not what the digest promises
├── LayerTruncated       what came ends too early
├── LayerTooLarge        more bytes, files or values than any module has
├── ArchiveUnsafe        a tar with links, devices, or paths that lead out of it
└── ObjectsInvalid       the text holds no proper Kubernetes objects
"""

from typing import ClassVar


class SourceError(Exception):
    """The objects of a module can't be had; the message says what to look at."""

    reason: ClassVar[str] = "SourceError"
    again_after_seconds: float = 15.0
    """For how long nobody need ask again: thousands of Manifests may have the same source."""


class SourceInvalid(SourceError):
    """What the Manifest says of its source names neither a layer nor a link."""

    reason = "SourceInvalid"


class CredentialsInvalid(SourceError):
    """The Secret that is to hold the registry's credentials is missing or unreadable."""

    reason = "CredentialsInvalid"
    again_after_seconds = 5.0


class SourceAwaited(SourceError):
    """It is being fetched for another Manifest, which takes so long that nobody else stands and waits for it."""

    reason = "SourceAwaited"
    again_after_seconds = 5.0


class SourceUnreachable(SourceError):
    """No answer, none in time, or one that says the server is broken."""

    reason = "SourceUnreachable"


class RegistryBusy(SourceError):
    """The registry is asked too often, and says for how long to leave it alone."""

    reason = "RegistryBusy"

    def __init__(self, message: str, again_after_seconds: float) -> None:
        super().__init__(message)
        self.again_after_seconds = again_after_seconds


class AccessRefused(SourceError):
    """The registry wants other credentials, or any."""

    reason = "RegistryAccessRefused"


class LayerNotFound(SourceError):
    """The repository has no such layer, or the credentials do not let it be seen."""

    reason = "LayerNotFound"


class DigestMismatch(SourceError):
    """What came is not what the digest promises."""

    reason = "DigestMismatch"


class LayerTruncated(SourceError):
    """What came ends too early, or is broken in the middle."""

    reason = "LayerTruncated"


class LayerTooLarge(SourceError):
    """More bytes, files or values than any module has."""

    reason = "LayerTooLarge"


class ArchiveUnsafe(SourceError):
    """A tar with links, devices, or paths that lead out of it."""

    reason = "ArchiveUnsafe"


class ObjectsInvalid(SourceError):
    """The text holds no proper Kubernetes objects."""

    reason = "ObjectsInvalid"
