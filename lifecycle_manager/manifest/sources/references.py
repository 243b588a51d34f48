"""Where the objects of a module are: a layer in an OCI registry, or a link."""

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec

from lifecycle_manager.manifest.sources.problems import SourceInvalid
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
        """Where the blob is read."""
        return f"{self.scheme}://{self.host}/v2/{self.path}/blobs/{self.digest}"

    def __str__(self) -> str:
        return f"{self.host}/{self.path}@{self.digest}"


@dataclass(frozen=True, slots=True)
class Link:
    """A file that is fetched over HTTPS."""

    url: str

    def __str__(self) -> str:
        return self.url


Source = Layer | Link


def source_in(raw: msgspec.Raw) -> Source:
    """Read what a Manifest says of its source. Raises SourceInvalid."""
    try:
        said: Any = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SourceInvalid(f"spec.install.source is no JSON: {error}") from None
    if not isinstance(said, dict):
        raise SourceInvalid("spec.install.source is no object")
    if isinstance(said.get("url"), str):
        return _link(said["url"])
    try:
        return _layer(msgspec.convert(said, ImageSpec))
    except msgspec.ValidationError as error:
        raise SourceInvalid(f"spec.install.source: {error}") from None


def is_this_machine(host: str) -> bool:
    """Tell whether a host is this machine, the one place where a registry may be asked without TLS."""
    name = urlsplit(f"//{host}").hostname or ""
    return name in {"localhost", "127.0.0.1", "::1"} or name.endswith(".localhost")


def _link(url: str) -> Link:
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        raise SourceInvalid(f"spec.install.source.url {url!r} is no https address")
    return Link(url)


def _layer(image: ImageSpec) -> Layer:
    if image.type != "oci-ref":
        raise SourceInvalid(f"spec.install.source.type {image.type!r} is not supported; use oci-ref")
    if not _DIGEST.fullmatch(image.ref):
        raise SourceInvalid(f"spec.install.source.ref {image.ref!r} is no digest such as sha256:…")
    scheme, separator, rest = image.repo.partition("://")
    if not separator:
        scheme, rest = "https", image.repo
    host, _, path = f"{rest.strip('/')}/{image.name.strip('/')}".partition("/")
    if not _HOST.fullmatch(host) or not _PATH.fullmatch(path):
        raise SourceInvalid(f"spec.install.source names no repository: {image.repo!r}, {image.name!r}")
    if scheme != "https" and not (scheme == "http" and is_this_machine(host)):
        raise SourceInvalid(f"spec.install.source.repo {image.repo!r}: a registry is asked over https only")
    return Layer(scheme, host, path, image.ref)
