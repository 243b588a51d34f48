"""A program that may use OpenSSL's FIPS provider only starts nowhere else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kyma_certs import FipsMode, FipsUnavailable, fips_mode
from tests.fips import DEMANDED, Environment

PROBE = "from kyma_certs import fips_mode; print(int(fips_mode(only=True)))"
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


@pytest.fixture
def without_provider(tmp_path: Path) -> Environment:
    """Demand the provider where it cannot be loaded."""
    file = tmp_path / "openssl.cnf"
    file.write_text(DEMANDED)
    return {"OPENSSL_CONF": str(file)}


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


def test_provider_that_fails_its_self_test_is_refused(fips_provider: Path, with_provider: Environment) -> None:
    content = bytearray(fips_provider.read_bytes())
    content[content.index(b"SHA2-256")] ^= 1
    fips_provider.write_bytes(content)

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
