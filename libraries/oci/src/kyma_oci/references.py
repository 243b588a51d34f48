"""References to what is in a repository: layers by their digest, and artifacts, such as descriptors, by their tag."""

import hashlib
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from kyma_oci.problems import SourceInvalid

COMPONENT_DESCRIPTORS = "component-descriptors"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HASHED_NAME = re.compile(r"[0-9a-f]{64}")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATH = re.compile(rf"{_PART}(?:/{_PART})*")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?|\[[0-9a-fA-F:]+\](?::[0-9]{1,5})?")


def content_digest(content: bytes) -> str:
    """Return the digest of a content as registries write it: sha256 and its hexadecimal digits."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


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
        return f"{self.scheme}://{_api_host(self.host)}/v2/{self.path}/blobs/{self.digest}"

    @property
    def uploads_url(self) -> str:
        """The URL at which an upload of it starts."""
        return f"{self.scheme}://{_api_host(self.host)}/v2/{self.path}/blobs/uploads/"

    @property
    def repository(self) -> str:
        """Host and path."""
        return f"{self.host}/{self.path}"

    def __str__(self) -> str:
        return f"{self.host}/{self.path}@{self.digest}"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A manifest of a repository: by its tag, or by its digest where that is known.

    Of the kind `referrers`, it is the index of what refers to the digest that is given as tag.
    """

    scheme: str
    host: str
    path: str
    tag: str
    digest: str = ""
    kind: str = "manifests"

    @property
    def url(self) -> str:
        """The URL of the manifest."""
        return f"{self.scheme}://{_api_host(self.host)}/v2/{self.path}/{self.kind}/{self.digest or self.tag}"

    @property
    def repository(self) -> str:
        """Host and path."""
        return f"{self.host}/{self.path}"

    def layer(self, digest: str) -> Layer:
        """Return one of its layers."""
        return Layer(self.scheme, self.host, self.path, digest)

    def __str__(self) -> str:
        return f"{self.repository}:{self.tag}" + (f"@{self.digest}" if self.digest else "")


Wanted = Layer | Artifact


def artifact_in(address: str, path: str, tag: str, *, plain_http: bool = False) -> Artifact:
    """Return an artifact below an address such as registry.example.com/modules. Raises SourceInvalid.

    `plain_http` allows an address on another machine without TLS.
    """
    if not _TAG.fullmatch(tag):
        raise SourceInvalid(f"invalid tag {tag!r}: expected letters, digits, _ . and -, at most 128")
    return Artifact(*_repository(address, path, f"{address!r}, {path!r}", plain_http=plain_http), tag)


def layer_in(address: str, path: str, digest: str, where: str) -> Layer:
    """Return a layer of a component in a registry. Raises SourceInvalid with `where` in its message.

    Components are in `component-descriptors`, whether the address says so or not, unless their names are hashed.
    """
    if not is_digest(digest):
        raise SourceInvalid(f"{where}.ref {digest!r} is not a digest such as sha256:…")
    base = address.rstrip("/").removesuffix(f"/{COMPONENT_DESCRIPTORS}")
    below = path if _HASHED_NAME.fullmatch(path) else f"{COMPONENT_DESCRIPTORS}/{path}"
    return Layer(*_repository(base, below, f"{where}: {address!r}, {path!r}"), digest)


def without_scheme(address: str) -> str:
    """Return the address of a registry as sources name it: without a scheme, unless https is not the one implied."""
    scheme, _, rest = address.rpartition("://")
    return address if scheme == "https" and is_this_machine(rest.partition("/")[0]) else rest


def is_digest(text: str) -> bool:
    """Tell whether a text is a sha256 digest."""
    return _DIGEST.fullmatch(text) is not None


def is_this_machine(host: str) -> bool:
    """Tell whether a host is this machine, where a registry needs no TLS."""
    name = host_of(f"//{host}")
    return name in {"localhost", "127.0.0.1", "::1"} or name.endswith(".localhost")


def host_of(url: str, scheme: str = "") -> str:
    """Return the host of a URL with this scheme, "" for anything else."""
    try:
        parts = urlsplit(url)
    except ValueError:  # brackets that are no IPv6 address
        return ""
    return (parts.hostname or "") if parts.scheme == scheme else ""


def netloc_of(url: str) -> str:
    """Return the host and port of a URL for messages: the rest may hold a signature or password."""
    return urlsplit(url).netloc.rpartition("@")[2]


def origin_of(url: str) -> tuple[str, str | None, str | None, int | None]:
    """Return what has to be equal for credentials of one URL to be sent to another. Raises ValueError."""
    parts = urlsplit(url)
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    return parts.scheme, parts.username, parts.hostname, port


def _api_host(host: str) -> str:
    """Return where the API of a registry is: that of Docker Hub is not at the host of its image names."""
    return "registry-1.docker.io" if host.lower() in {"docker.io", "index.docker.io"} else host


def _repository(address: str, path: str, where: str, *, plain_http: bool = False) -> tuple[str, str, str]:
    """Return scheme, host and path of a repository. Raises SourceInvalid with `where` in its message."""
    scheme, separator, rest = address.partition("://")
    rest = rest if separator else address
    host, _, path = f"{rest.strip('/')}/{path.strip('/')}".partition("/")
    if not separator:
        scheme = "http" if is_this_machine(host) else "https"
    if not _HOST.fullmatch(host) or not _PATH.fullmatch(path):
        raise SourceInvalid(f"{where} is not a repository: expected host[:port]/path, the path in small letters")
    if scheme != "https" and not (scheme == "http" and (plain_http or is_this_machine(host))):
        raise SourceInvalid(f"{where}: a registry needs https")
    return scheme, host, path
