"""TLS contexts that reload their files: the next connection uses the renewed certificate."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger(__name__)

CHECK_SECONDS = 2.0


class _WatchedFiles:
    """Files, and whether they have changed since they were last loaded."""

    def __init__(self, *files: Path | None) -> None:
        self._files = [file for file in files if file is not None]
        self._loaded = self._stamps()
        self._reported = ""

    def reload(self, build: Callable[[], ssl.SSLContext]) -> ssl.SSLContext | None:
        """Return a context of the files if they have changed, else None.

        Unusable files are reported once. They are tried again each time: they may be complete by then, or there were
        no free file descriptors.
        """
        try:
            stamps = self._stamps()
            if stamps == self._loaded:
                return None
            context = build()
        except (OSError, ssl.SSLError) as error:
            if str(error) != self._reported:
                self._reported = str(error)
                log.warning("cannot load the certificate files, using the previous ones: %s", error)
            return None
        self._loaded, self._reported = stamps, ""
        return context

    def _stamps(self) -> list[tuple[int, int]]:
        return [(stat.st_mtime_ns, stat.st_ino) for stat in (file.stat() for file in self._files)]


class ReloadingServerContext:
    """A server's TLS 1.3 context. Each handshake uses the current files, so a CA can also be removed.

    By `clients` a certificate of the client is required, or verified if the client sends one, or not requested.
    """

    def __init__(self, cert_file: Path, key_file: Path, ca_file: Path | None, *, clients: ssl.VerifyMode) -> None:
        self._files = (cert_file, key_file, ca_file)
        self._clients = clients
        self._watched = _WatchedFiles(*self._files)
        self._current = self._build()
        self.ssl_context = self._build()
        self.ssl_context.sni_callback = self._choose

    def check(self) -> bool:
        """Reload the files if they have changed; return whether they were. Unusable files are not loaded."""
        reloaded = self._watched.reload(self._build)
        self._current = reloaded or self._current
        return reloaded is not None

    async def run(self, interval: float = CHECK_SECONDS) -> None:
        """Check the files at an interval, until cancelled."""
        while True:
            await asyncio.sleep(interval)
            self.check()

    def _choose(self, connection: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
        connection.context = self._current

    def _build(self) -> ssl.SSLContext:
        cert_file, key_file, ca_file = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.num_tickets = 0
        context.load_cert_chain(cert_file, key_file)
        if ca_file is not None:
            context.load_verify_locations(ca_file)
        context.verify_mode = self._clients
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # a CA that another one issued is trusted without that
        return context


class ReloadingClientContext:
    """A client's TLS 1.3 context with a client certificate."""

    def __init__(self, cert_file: Path, key_file: Path, ca_file: Path) -> None:
        self._files = (cert_file, key_file, ca_file)
        self._watched = _WatchedFiles(*self._files)
        self.ssl_context = self._build()

    def check(self) -> bool:
        """Reload the files if they have changed; return whether they were."""
        reloaded = self._watched.reload(self._build)
        if reloaded is None:
            return False
        self.ssl_context = reloaded
        return True

    def _build(self) -> ssl.SSLContext:
        cert_file, key_file, ca_file = self._files
        context = ssl.create_default_context(cafile=str(ca_file))
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(cert_file, key_file)
        return context
