"""Who a client is towards its API server, as the headers that say so.

What stands in a kubeconfig and never changes, or changes in a file, is done here; what has to be asked for (plugins
that are run, OpenID Connect, Google) is left to kubernetes-asyncio, see `plugins`.
"""

import asyncio
import base64
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from kube_runtime.exceptions import KubeconfigInvalid

log = logging.getLogger(__name__)
_RETRY_SECONDS = 10.0


class Credentials(Protocol):
    """Gives the headers that authenticate a request."""

    async def headers(self) -> Mapping[str, str]:
        """Return the headers for the next request."""

    def refused(self) -> bool:
        """Take note that the server did not accept the headers. Returns whether asking again may give others."""


class FixedHeaders:
    """What never changes: an Authorization header, or nothing where a client certificate says it all."""

    def __init__(self, authorization: str = "") -> None:
        self._headers = {"Authorization": authorization} if authorization else {}

    async def headers(self) -> Mapping[str, str]:
        """Return the header."""
        return self._headers

    def refused(self) -> bool:
        """Nothing else can be tried."""
        return False


class TokenFile:
    """A bearer token in a file that somebody renews, as the kubelet does for a Pod's ServiceAccount.

    The last token counts where the file can't be read, as while it is written: before the first one `otherwise`.
    """

    def __init__(
        self,
        path: Path,
        *,
        otherwise: str | None = None,
        reread_seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._reread_seconds = reread_seconds
        self._clock = clock
        self._known = {"Authorization": bearer(otherwise)} if otherwise else {}
        self._until = float("-inf")

    async def headers(self) -> Mapping[str, str]:
        """Return the token, read again when the last reading is old. Raises KubeconfigInvalid without any."""
        if self._clock() >= self._until:
            await asyncio.to_thread(self._read)
        return self._known

    def refused(self) -> bool:
        """The file may hold another token by now."""
        self._until = float("-inf")
        return True

    def _read(self) -> None:
        pause = self._reread_seconds
        try:
            self._known = {"Authorization": bearer(self._path.read_text(encoding="ascii").strip())}
        except (OSError, UnicodeDecodeError, KubeconfigInvalid) as error:
            why = error if isinstance(error, KubeconfigInvalid) else error.__class__.__name__
            message = f"the token file {self._path} can't be read: {why}"
            if not self._known:
                raise KubeconfigInvalid(message) from None
            log.warning("the last token is used, as %s", message)
            pause = _RETRY_SECONDS
        self._until = self._clock() + pause


def bearer(token: str) -> str:
    """Return the header of a bearer token. Raises KubeconfigInvalid for one that no header can carry."""
    if not token or not token.isascii() or not token.isprintable():
        raise KubeconfigInvalid("the token is empty, or holds what no header can carry")
    return f"Bearer {token}"


def basic(user: str, password: str) -> str:
    """Return the header of HTTP basic authentication."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
