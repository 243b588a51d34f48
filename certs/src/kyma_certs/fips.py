"""Whether this process has cryptography from OpenSSL's FIPS provider only.

There may be two OpenSSL libraries in a process: Python's, which is used for TLS, and that of `cryptography`, which is
used for certificates and signatures. Its wheels contain one that cannot load a provider. Both are asked for what
they do: the setting `fips=yes` alone says only what they should do, and is there if no provider could be loaded, too.
"""

import _hashlib
from enum import IntEnum

from cryptography.exceptions import InternalError, UnsupportedAlgorithm
from cryptography.hazmat.bindings._rust import openssl
from cryptography.hazmat.primitives import hashes


class FipsMode(IntEnum):
    """The value of the metrics: ONLY is ON where the program would not have started without it."""

    OFF = 0
    ON = 1
    ONLY = 2


class FipsUnavailable(Exception):
    """The process may use the FIPS provider only, and has a library that does not."""


def fips_mode(*, only: bool = False) -> FipsMode:
    """Return the mode of this process. Raises FipsUnavailable if it is OFF, but may be nothing but ON."""
    problems = [problem for problem in (_of_python(), _of_cryptography()) if problem]
    if problems and only:
        raise FipsUnavailable(f"the FIPS provider of OpenSSL is required, but {'; and '.join(problems)}")
    return FipsMode.OFF if problems else FipsMode.ONLY if only else FipsMode.ON


def _of_python() -> str:
    """Return why Python's OpenSSL is not in FIPS mode, or an empty text."""
    if not _hashlib.get_fips_mode():
        return "Python's OpenSSL is not configured for it (default_properties = fips=yes)"
    if not _python_has("sha256"):
        return "Python's OpenSSL has not loaded it"
    return "Python's OpenSSL provides MD5" if _python_has("md5") else ""


def _of_cryptography() -> str:
    """Return why the OpenSSL of `cryptography` is not in FIPS mode, or an empty text."""
    library = f"the OpenSSL of cryptography, {openssl.openssl_version_text()},"
    if not openssl.is_fips_enabled():
        return f"{library} is not configured for it (default_properties = fips=yes)"
    if not _cryptography_has(hashes.SHA256()):
        return f"{library} has not loaded it, which that in wheels of cryptography never does"
    return f"{library} provides MD5" if _cryptography_has(hashes.MD5()) else ""  # noqa: S303 - nothing is hashed


def _python_has(algorithm: str) -> bool:
    """Tell whether OpenSSL has an algorithm. `hashlib` implements some that OpenSSL has not."""
    try:
        _hashlib.new(algorithm)
    except ValueError:
        return False
    return True


def _cryptography_has(algorithm: hashes.HashAlgorithm) -> bool:
    try:
        hashes.Hash(algorithm)
    except (UnsupportedAlgorithm, InternalError):
        return False
    return True
