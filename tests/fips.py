"""OpenSSL's FIPS provider for the tests.

It runs where `FIPS_PROVIDER` names its file, such as that of Debian's package openssl-provider-fips; for whole programs
`FIPS_CRYPTOGRAPHY` names a folder with a `cryptography` that was built with Python's OpenSSL.
"""

import os
import subprocess
from pathlib import Path

import pytest

DEMANDED = """
openssl_conf = init
[init]
providers = providers
alg_section = algorithms
[algorithms]
default_properties = fips=yes
[providers]
base = base
[base]
activate = 1
"""
Environment = dict[str, str]


@pytest.fixture
def fips_provider(tmp_path: Path) -> Path:
    """Return a copy of the provider's file."""
    given = os.environ.get("FIPS_PROVIDER")
    if not given:
        pytest.skip("FIPS_PROVIDER is not set: give the file fips.so of OpenSSL's FIPS provider")
    copy = tmp_path / "fips.so"
    copy.write_bytes(Path(given).read_bytes())
    return copy


@pytest.fixture
def with_provider(fips_provider: Path) -> Environment:
    """Install the provider, which runs its self-test, and demand it."""
    folder, installed = fips_provider.parent, fips_provider.with_name("fipsmodule.cnf")
    install = [
        "openssl",
        "fipsinstall",
        "-module",
        str(fips_provider),
        "-out",
        str(installed),
        "-provider_name",
        "fips",
    ]
    subprocess.run(install, capture_output=True, check=True)
    file = folder / "openssl.cnf"
    demanded = DEMANDED.replace("base = base", "base = base\nfips = fips_sect")
    file.write_text(f"{demanded}.include {installed}\n")
    return {"OPENSSL_CONF": str(file), "OPENSSL_MODULES": str(folder)}


@pytest.fixture
def in_fips_mode(with_provider: Environment) -> Environment:
    """Have both libraries use the provider."""
    folder = os.environ.get("FIPS_CRYPTOGRAPHY")
    if not folder:
        pytest.skip("FIPS_CRYPTOGRAPHY is not set: give a folder with cryptography, built with Python's OpenSSL")
    return {**with_provider, "PYTHONPATH": folder, "CRYPTOGRAPHY_OPENSSL_NO_LEGACY": "1"}
