"""The login for a registry: name and password from a Secret of type kubernetes.io/dockerconfigjson."""

import base64
from collections.abc import Awaitable, Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from kyma_oci.problems import UNREADABLE, CredentialsInvalid

DOCKER_CONFIG = ".dockerconfigjson"
_API_VERSIONS = frozenset({"v1", "v2"})  # as in https://index.docker.io/v1/
_DOCKER_HUB = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})


class Login(msgspec.Struct, frozen=True):
    """Name and password; never shown."""

    name: str
    password: str

    @property
    def basic(self) -> str:
        """The value of the header Authorization (RFC 7617)."""
        return "Basic " + base64.b64encode(f"{self.name}:{self.password}".encode()).decode()

    def __repr__(self) -> str:
        return "Login(…)"


LoginFor = Callable[[str], Awaitable[Login | None]]
"""Returns the login for a repository, given as host and path. Raises SourceError."""


class DockerConfig(msgspec.Struct, frozen=True):
    """A docker config: its entries by the registry that they are for. `origin` names it in messages."""

    origin: str
    auths: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"DockerConfig({self.origin})"


def config_in_secret(data: Mapping[str, str], name: str) -> DockerConfig:
    """Return the docker config in the data of a Secret, whose values are base64. Raises CredentialsInvalid."""
    origin = f"Secret {name}"
    try:
        config = msgspec.json.decode(base64.b64decode(data[DOCKER_CONFIG], validate=True), type=dict[str, Any])
    except KeyError:
        raise CredentialsInvalid(f"{origin} has no key {DOCKER_CONFIG!r}") from None
    except (ValueError, *UNREADABLE):
        raise CredentialsInvalid(f"{origin}: {DOCKER_CONFIG} is not a JSON object") from None
    entries = config.get("auths")
    return DockerConfig(origin, entries if isinstance(entries, dict) else {})


def login_in(configs: Iterable[DockerConfig], repository: str) -> Login | None:
    """Return the login for a repository such as `registry.example.com/modules/one`, that with the longest path.

    One for `*.example.com`, as the kubelet reads it, counts after those that name the host. Of several, that of the
    first config. None where there is none for it. Raises CredentialsInvalid.
    """
    host, _, path = repository.partition("/")
    found = [
        (("*" in server, -len(scope)), config, entry)
        for config in configs
        for server, entry in config.auths.items()
        if (scope := _scope(server, host)) is not None and f"{path}/".startswith(scope)
    ]
    for _, config, entry in sorted(found, key=lambda each: each[0]):
        if (login := _login(config, entry)) is not None:
            return login
    return None


def _login(config: DockerConfig, entry: Any) -> Login | None:
    if not isinstance(entry, dict):
        return None
    if entry.get("username"):
        return Login(str(entry["username"]), str(entry.get("password") or ""))
    if not entry.get("auth"):
        return None
    try:
        auth = str(entry["auth"]).replace("\n", "").replace("\r", "").rstrip("=")  # some wrap it, some don't pad it
        padded = auth + "=" * (-len(auth) % 4)
        name, separator, password = base64.b64decode(padded, validate=True).decode().partition(":")
    except ValueError:  # no base64, characters outside of ASCII, or no UTF-8
        separator = ""
    if not separator:
        raise CredentialsInvalid(f"{config.origin}: an `auth` is not name and password in base64") from None
    return Login(name, password)


def _scope(server: str, host: str) -> str | None:
    """Return the path that an entry is for, with a slash at its end; "" for the whole host, None for another host."""
    named, _, path = (server.partition("://")[2] or server).partition("/")
    if named != host and not {named, host} <= _DOCKER_HUB and not _is_pattern_of(named, host):
        return None
    path = path.strip("/")
    first, _, rest = path.partition("/")
    path = rest if first in _API_VERSIONS else path
    return f"{path}/" if path else ""


def _is_pattern_of(named: str, host: str) -> bool:
    """Tell whether `*` in a name stands for letters of one label of a host."""
    labels, wanted = named.split("."), host.split(".")
    return "*" in named and len(labels) == len(wanted) and all(map(fnmatchcase, wanted, labels))
