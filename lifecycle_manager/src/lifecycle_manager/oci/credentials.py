"""The login for a registry: name and password from a Secret of type kubernetes.io/dockerconfigjson."""

import base64
import binascii
from collections.abc import Iterable
from typing import Any

import msgspec

from lifecycle_manager.contract.resources import Secret
from lifecycle_manager.oci.problems import CredentialsInvalid

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


def login_in(secrets: Iterable[Secret], repository: str) -> Login | None:
    """Return the login for a repository such as `registry.example.com/modules/one`, that with the longest path.

    None where the Secrets hold none for it. Raises CredentialsInvalid.
    """
    host, _, path = repository.partition("/")
    found = [
        (scope, secret, entry)
        for secret in sorted(secrets, key=lambda each: each.metadata.name)
        for server, entry in _entries(secret)
        if (scope := _scope(server, host)) is not None and f"{path}/".startswith(scope)
    ]
    for _, secret, entry in sorted(found, key=lambda each: -len(each[0])):
        if (login := _login(secret, entry)) is not None:
            return login
    return None


def _entries(secret: Secret) -> Iterable[tuple[str, Any]]:
    try:
        config = msgspec.json.decode(base64.b64decode(secret.data[DOCKER_CONFIG], validate=True), type=dict[str, Any])
    except KeyError:
        raise CredentialsInvalid(f"{_named(secret)} has no key {DOCKER_CONFIG!r}") from None
    except (binascii.Error, msgspec.MsgspecError, UnicodeDecodeError):
        raise CredentialsInvalid(f"{_named(secret)}: {DOCKER_CONFIG} is not a JSON object") from None
    entries = config.get("auths")
    return entries.items() if isinstance(entries, dict) else ()


def _login(secret: Secret, entry: Any) -> Login | None:
    if not isinstance(entry, dict):
        return None
    if entry.get("username"):
        return Login(str(entry["username"]), str(entry.get("password") or ""))
    if not entry.get("auth"):
        return None
    try:
        name, separator, password = base64.b64decode(str(entry["auth"]), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        separator = ""
    if not separator:
        raise CredentialsInvalid(f"{_named(secret)}: an `auth` is not name and password in base64") from None
    return Login(name, password)


def _scope(server: str, host: str) -> str | None:
    """Return the path that an entry is for, with a slash at its end; "" for the whole host, None for another host."""
    named, _, path = (server.partition("://")[2] or server).partition("/")
    if named != host and not {named, host} <= _DOCKER_HUB:
        return None
    path = path.strip("/")
    first, _, rest = path.partition("/")
    path = rest if first in _API_VERSIONS else path
    return f"{path}/" if path else ""


def _named(secret: Secret) -> str:
    return f"Secret {secret.metadata.namespace}/{secret.metadata.name}"
