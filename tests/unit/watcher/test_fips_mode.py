"""The metric tells the FIPS mode where it can be told: of the kernel, and of the OpenSSL that ends TLS here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from skr_watcher.metrics import FIPS_OFF, FIPS_ON, FIPS_ONLY, fips_mode

CONFIGURED = """openssl_conf = init
[init]
alg_section = algorithms
[algorithms]
default_properties = fips=yes
"""


@pytest.mark.parametrize(
    ("flag", "mode"),
    [
        pytest.param("1\n", FIPS_ON, id="the kernel is in FIPS mode"),
        pytest.param("0\n", FIPS_OFF, id="the kernel is not"),
        pytest.param(None, FIPS_OFF, id="the kernel knows none"),
    ],
)
def test_mode_follows_the_kernel(tmp_path: Path, flag: str | None, mode: int) -> None:
    kernel = tmp_path / "fips_enabled"
    if flag is not None:
        kernel.write_text(flag)
    assert fips_mode(kernel) == mode


def test_mode_is_only_when_openssl_provides_approved_algorithms_only(tmp_path: Path) -> None:
    """It is configured when a process begins, so one of its own is asked."""
    configuration = tmp_path / "openssl.cnf"
    configuration.write_text(CONFIGURED)
    done = subprocess.run(
        [sys.executable, "-c", "from skr_watcher.metrics import fips_mode; print(fips_mode())"],
        env={**os.environ, "OPENSSL_CONF": str(configuration)},
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    assert int(done.stdout) == FIPS_ONLY
