"""TLS towards an API server, from certificates that are in memory.

Python loads a client certificate from files only. Keys of a kubeconfig are therefore shown to it in an anonymous file
in memory, which has no name and is gone when it is closed; where the platform has none, in a file that only this user
can read, for as long as loading takes.
"""

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from kube_runtime.exceptions import KubeconfigInvalid


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """What TLS to an API server needs. PEM as bytes; without a CA those of the system are trusted."""

    ca: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    verify: bool = True


def tls_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return a context for clients. Raises KubeconfigInvalid for certificates that can't be used."""
    context = _context_of(settings)
    if not settings.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if settings.certificate is not None:
        _load_certificate(context, settings.certificate, settings.key)
    return context


def _context_of(settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # an intermediate CA is trusted without its root, as by Go
    if settings.ca is not None:
        try:
            context.load_verify_locations(cadata=settings.ca.decode("ascii", "ignore"))  # comments are in any language
        except (ssl.SSLError, ValueError) as error:
            raise KubeconfigInvalid(f"the certificate authority is no certificate in PEM: {error}") from None
    elif settings.verify:
        context.load_default_certs()
    return context


def _load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes | None) -> None:
    joined = certificate.rstrip() + b"\n" + (key or b"")
    try:
        with _readable_path(joined) as path:
            context.load_cert_chain(path, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise KubeconfigInvalid(f"the client certificate and its key can't be used: {error}") from None


def _no_password() -> str:
    raise KubeconfigInvalid("the client key is encrypted, and nobody is here to ask for the password")


@contextmanager
def _readable_path(content: bytes) -> Iterator[str]:
    if _has_memory_files():
        descriptor = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
        return
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "client.pem"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        yield str(path)


@cache
def _has_memory_files() -> bool:
    return hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir()
