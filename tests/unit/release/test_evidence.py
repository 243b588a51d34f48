"""Provenance and checksums name every file as it is."""

import hashlib
import json
import subprocess
from pathlib import Path

from tools.release.evidence import write_checksums, write_provenance, write_sbom


def test_provenance_names_each_file_by_its_digest_and_the_commit(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"wheel")
    write_provenance(tmp_path, "0.3.1")

    statement = json.loads((tmp_path / "provenance.intoto.json").read_text())
    assert statement["subject"] == [{"name": "a.whl", "digest": {"sha256": hashlib.sha256(b"wheel").hexdigest()}}]
    head = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert statement["predicate"]["buildDefinition"]["resolvedDependencies"][0]["digest"] == {"gitCommit": head}


def test_changed_file_is_found_by_its_checksum(tmp_path: Path) -> None:
    file = tmp_path / "a.whl"
    file.write_bytes(b"wheel")
    write_checksums(tmp_path)
    check = ["sha256sum", "--check", "--quiet", "SHA256SUMS"]

    assert subprocess.run(check, cwd=tmp_path, check=False).returncode == 0
    file.write_bytes(b"other")
    assert subprocess.run(check, cwd=tmp_path, check=False, capture_output=True).returncode == 1


def test_packages_are_named_as_vulnerabilities_name_them(tmp_path: Path) -> None:
    (tmp_path / "klm.pyz").touch()
    (info := tmp_path / "lib/python/site-packages/some_Package.py-5.0.dist-info").mkdir(parents=True)
    (info / "METADATA").write_text("Name: some_Package.py\nVersion: 5.0\n")
    write_sbom(tmp_path, installed=tmp_path)
    assert "pkg:pypi/some-package-py@5.0" in (tmp_path / "klm.spdx.json").read_text()
