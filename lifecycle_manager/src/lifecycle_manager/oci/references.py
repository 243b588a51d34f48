"""References: a module's source, which is a layer in an OCI registry or a link; and artifacts, such as descriptors."""

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec

from lifecycle_manager.oci.problems import SourceInvalid
from lifecycle_manager_api import ImageSpec

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATH = re.compile(rf"{_PART}(?:/{_PART})*")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?|\[[0-9a-fA-F:]+\](?::[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class Layer:
    """A blob of a repository, named by its digest."""

    scheme: str
    host: str
    path: str
    digest: str

    @property
    def url(self) -> str:
        """The URL of the blob."""
        return f"{self.scheme}://{self.host}/v2/{self.path}/blobs/{self.digest}"

    @property
    def repository(self) -> str:
        """Host and path."""
        return f"{self.host}/{self.path}"

    def __str__(self) -> str:
        return f"{self.host}/{self.path}@{self.digest}"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A tagged manifest of a repository."""

    scheme: str
    host: str
    path: str
    tag: str

    @property
    def url(self) -> str:
        """The URL of the manifest."""
        return f"{self.scheme}://{self.host}/v2/{self.path}/manifests/{self.tag}"

    @property
    def repository(self) -> str:
        """Host and path."""
        return f"{self.host}/{self.path}"

    def layer(self, digest: str) -> Layer:
        """Return one of its layers."""
        return Layer(self.scheme, self.host, self.path, digest)

    def __str__(self) -> str:
        return f"{self.host}/{self.path}:{self.tag}"


@dataclass(frozen=True, slots=True)
class HttpsLink:
    """A file that is fetched over HTTPS."""

    url: str

    def __str__(self) -> str:
        return self.url


Source = Layer | HttpsLink


def source_in(raw: msgspec.Raw) -> Source:
    """Return the source that a Manifest names. Raises SourceInvalid."""
    try:
        fields: Any = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SourceInvalid(f"spec.install.source is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise SourceInvalid("spec.install.source is not an object")
    if isinstance(fields.get("url"), str):
        return _link(fields["url"])
    try:
        return _layer(msgspec.convert(fields, ImageSpec))
    except msgspec.ValidationError as error:
        raise SourceInvalid(f"spec.install.source: {error}") from None


def artifact_in(address: str, path: str, tag: str) -> Artifact:
    """Return an artifact below an address such as registry.example.com/modules. Raises SourceInvalid."""
    return Artifact(*_repository(address, path, repr(address)), tag)


def is_digest(text: str) -> bool:
    """Tell whether a text is a sha256 digest."""
    return _DIGEST.fullmatch(text) is not None


def is_this_machine(host: str) -> bool:
    """Tell whether a host is this machine, where a registry needs no TLS."""
    name = urlsplit(f"//{host}").hostname or ""
    return name in {"localhost", "127.0.0.1", "::1"} or name.endswith(".localhost")


def _link(url: str) -> HttpsLink:
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        raise SourceInvalid(f"spec.install.source.url {url!r} is not an https URL")
    return HttpsLink(url)


def _layer(image: ImageSpec) -> Layer:
    if image.type not in {"oci-ref", "oci-dir"}:  # a layer says itself whether it is packed
        raise SourceInvalid(f"spec.install.source.type {image.type!r} is not supported; use oci-ref")
    if not is_digest(image.ref):
        raise SourceInvalid(f"spec.install.source.ref {image.ref!r} is not a digest such as sha256:…")
    where = f"spec.install.source: {image.repo!r}, {image.name!r}"
    return Layer(*_repository(image.repo, image.name, where), image.ref)


def _repository(address: str, path: str, where: str) -> tuple[str, str, str]:
    """Return scheme, host and path of a repository. Raises SourceInvalid with `where` in its message."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        scheme, rest = "https", address
    host, _, path = f"{rest.strip('/')}/{path.strip('/')}".partition("/")
    if not _HOST.fullmatch(host) or not _PATH.fullmatch(path):
        raise SourceInvalid(f"{where} is not a repository")
    if scheme != "https" and not (scheme == "http" and is_this_machine(host)):
        raise SourceInvalid(f"{where}: a registry needs https")
    return scheme, host, path
