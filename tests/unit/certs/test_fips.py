"""A program that may use OpenSSL's FIPS provider only starts nowhere else.

What needs the provider runs where `FIPS_PROVIDER` names its file, such as that of Debian's package
openssl-provider-fips; for whole programs `FIPS_CRYPTOGRAPHY` names a folder with a `cryptography` that was built
with Python's OpenSSL.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kyma_certs import FipsMode, FipsUnavailable, fips_mode

PROBE = "from kyma_certs import fips_mode; print(int(fips_mode(only=True)))"
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
METRICS = """
from prometheus_client import CollectorRegistry
from kyma_certs import fips_mode
from lifecycle_manager.process.telemetry import show_fips_mode
from skr_watcher.metrics import Metrics
registry = CollectorRegistry()
show_fips_mode(registry, only=True)
print(registry.get_sample_value("lifecycle_mgr_fips_mode"))
print(Metrics(fips_mode()).registry.get_sample_value("watcher_fips_mode"))
"""
Environment = dict[str, str]


@pytest.fixture
def without_provider(tmp_path: Path) -> Environment:
    """Demand the provider where it cannot be loaded."""
    file = tmp_path / "openssl.cnf"
    file.write_text(DEMANDED)
    return {"OPENSSL_CONF": str(file)}


@pytest.fixture
def provider(tmp_path: Path) -> Path:
    """Return a copy of the provider's file."""
    given = os.environ.get("FIPS_PROVIDER")
    if not given:
        pytest.skip("FIPS_PROVIDER is not set: give the file fips.so of OpenSSL's FIPS provider")
    copy = tmp_path / "fips.so"
    copy.write_bytes(Path(given).read_bytes())
    return copy


@pytest.fixture
def with_provider(provider: Path) -> Environment:
    """Install the provider, which runs its self-test, and demand it."""
    folder, installed = provider.parent, provider.with_name("fipsmodule.cnf")
    install = ["openssl", "fipsinstall", "-module", str(provider), "-out", str(installed), "-provider_name", "fips"]
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


def test_process_without_configuration_is_not_in_fips_mode() -> None:
    assert fips_mode() == FipsMode.OFF
    with pytest.raises(FipsUnavailable, match=r"Python's OpenSSL is not configured .*; and the OpenSSL of crypto"):
        fips_mode(only=True)


def test_demanded_provider_that_is_not_loaded_does_not_count(without_provider: Environment) -> None:
    refused = _python(PROBE, without_provider)

    assert "Python's OpenSSL has not loaded it; and the OpenSSL of cryptography" in refused.stderr
    assert _python("from kyma_certs import fips_mode; print(int(fips_mode()))", without_provider).stdout == "0\n"


@pytest.mark.parametrize(
    ("command", "environment"),
    [
        (["klm", "run", "--fips-only"], {}),
        (["skr-watcher"], {"FIPS_ONLY": "true", "KCP_ADDR": "kcp.example.com:443"}),
    ],
    ids=["klm", "skr-watcher"],
)
def test_program_that_demands_the_provider_does_not_start_without_it(
    command: list[str], environment: Environment
) -> None:
    program = Path(sys.executable).with_name(command[0])
    refused = _run([str(program), *command[1:]], environment)

    assert refused.returncode > 0
    assert "the FIPS provider of OpenSSL is required, but Python's OpenSSL is not configured for it" in refused.stderr


def test_wheel_of_cryptography_is_refused_where_python_has_the_provider(with_provider: Environment) -> None:
    refused = _python(PROBE, with_provider)

    assert "required, but the OpenSSL of cryptography" in refused.stderr
    assert "which that in wheels of cryptography never does" in refused.stderr


def test_provider_that_fails_its_self_test_is_refused(provider: Path, with_provider: Environment) -> None:
    content = bytearray(provider.read_bytes())
    content[content.index(b"SHA2-256")] ^= 1
    provider.write_bytes(content)

    assert "Python's OpenSSL has not loaded it" in _python(PROBE, with_provider).stderr


def test_mode_is_only_where_both_libraries_use_the_provider(in_fips_mode: Environment) -> None:
    assert _python(PROBE, in_fips_mode).stdout == f"{int(FipsMode.ONLY)}\n"
    assert _python(METRICS, in_fips_mode).stdout == "2.0\n1.0\n"


def test_certificates_and_signatures_are_made_with_the_provider(in_fips_mode: Environment) -> None:
    tests = [str(each) for each in Path(__file__).parent.glob("test_[!f]*.py")]
    done = _run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], in_fips_mode)

    assert done.returncode == 0, done.stdout


def _python(program: str, environment: Environment) -> subprocess.CompletedProcess[str]:
    return _run([sys.executable, "-c", program], environment)


def _run(command: list[str], environment: Environment) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=240, check=False
    )
