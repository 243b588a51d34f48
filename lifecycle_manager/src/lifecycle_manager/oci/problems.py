"""Why the objects of a module can't be read: each error with the reason for a condition.

SourceError
├── SourceInvalid        the source in the Manifest is neither a layer nor a link
├── CredentialsInvalid   the Secret with the registry's credentials is missing or unreadable
├── SourceAwaited        it is being fetched for another Manifest, which takes long
├── SourceUnreachable    no answer, a timeout, or a server error
├── RegistryBusy         429 (too many requests)
├── AccessRefused        401 or 403
├── LayerNotFound        404
├── DigestMismatch       the content has another digest
├── LayerTruncated       the content is truncated
├── LayerTooLarge        more bytes, files or values than any module has
├── ArchiveUnsafe        a tar with links, devices, or paths that lead out of it
└── ObjectsInvalid       the text holds no proper Kubernetes objects
"""

from typing import ClassVar


class SourceError(Exception):
    """The objects of a module can't be read; the message says what to check."""

    reason: ClassVar[str] = "SourceError"
    again_after_seconds: float = 15.0
    """For how long the source is not requested again: thousands of Manifests may have it."""


class SourceInvalid(SourceError):
    """The source in the Manifest is neither a layer nor a link."""

    reason = "SourceInvalid"


class CredentialsInvalid(SourceError):
    """The Secret with the registry's credentials is missing or unreadable."""

    reason = "CredentialsInvalid"
    again_after_seconds = 5.0


class SourceAwaited(SourceError):
    """It is being fetched for another Manifest, which takes too long to wait for."""

    reason = "SourceAwaited"
    again_after_seconds = 5.0


class SourceUnreachable(SourceError):
    """No answer, a timeout, or a server error."""

    reason = "SourceUnreachable"


class RegistryBusy(SourceError):
    """Too many requests; the registry says when to try again."""

    reason = "RegistryBusy"

    def __init__(self, message: str, again_after_seconds: float) -> None:
        super().__init__(message)
        self.again_after_seconds = again_after_seconds


class AccessRefused(SourceError):
    """The registry requires credentials, or other ones."""

    reason = "RegistryAccessRefused"


class LayerNotFound(SourceError):
    """The repository has no such layer, or hides it from these credentials."""

    reason = "LayerNotFound"


class DigestMismatch(SourceError):
    """The content has another digest."""

    reason = "DigestMismatch"


class LayerTruncated(SourceError):
    """The content is truncated or corrupt."""

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
