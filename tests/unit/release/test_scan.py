"""What the scanner reports is a failure where a newer version fixes it."""

import json
import os
import stat
from pathlib import Path

import pytest

from tools.release import scan

FIXED = {"id": "CVE-1", "affected": [{"ranges": [{"events": [{"introduced": "0"}, {"fixed": "1.2"}]}]}]}
OPEN = {"id": "CVE-2", "affected": [{"ranges": [{"events": [{"introduced": "0"}]}]}]}


@pytest.mark.parametrize(
    ("known", "exit_code", "scanner_code", "printed"),
    [
        ([FIXED, OPEN], 1, 1, "httpx 1.1: CVE-1\n"),
        ([OPEN], 0, 1, "0 to fix, 1 without a fix"),
        ([], 0, 0, "0 to fix, 0 without a fix"),
        ([OPEN], 127, 127, ""),
    ],
)
def test_only_what_can_be_fixed_fails(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    known: list[object],
    exit_code: int,
    scanner_code: int,
    printed: str,
) -> None:
    package = {"package": {"name": "httpx", "version": "1.1", "ecosystem": "PyPI"}, "vulnerabilities": known}
    (tmp_path / "report.json").write_text(json.dumps({"results": [{"packages": [package]}]}))
    program = tmp_path / "kyma-lifecycle-manager" / f"osv-scanner-{scan.OSV_SCANNER.version}" / "osv-scanner"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/report.json; exit {scanner_code}\n")
    program.chmod(stat.S_IRWXU)
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(tmp_path))
    monkeypatch.setattr("sys.argv", ["scan"])

    assert scan.main() == exit_code
    assert printed in capfd.readouterr().out
