"""What belongs to the built files: which packages klm consists of, what they were built from, and their checksums."""

import hashlib
import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from tools.images.packages import write_packages

SOURCE = "https://github.com/kyma-project/lifecycle-manager-py"


def write_sbom(dist: Path, installed: Path) -> None:
    """Write the packages of klm with all commands, which are those of the wheels and of the lock, as SPDX."""
    klm = dist / "klm.pyz"
    created = datetime.fromtimestamp(int(_git("log", "-1", "--format=%ct")), UTC)
    sbom, digest = dist / "klm.spdx.json", f"sha256:{_digest(klm)}"
    write_packages(sbom, image=klm.name, digest=digest, installed=installed, status="", created=created)


def write_provenance(dist: Path, version: str) -> None:
    """Write from which sources the files were built, as in-toto statement of SLSA; the release workflow signs it."""
    commit = {"uri": f"git+{SOURCE}", "digest": {"gitCommit": _git("rev-parse", "HEAD")}}
    lock = {"uri": "uv.lock", "digest": {"sha256": _digest(Path("uv.lock"))}}
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": each.name, "digest": {"sha256": _digest(each)}} for each in _files(dist)],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{SOURCE}/make-dist/v1",
                "externalParameters": {"version": version},
                "resolvedDependencies": [commit, lock],
            },
            "runDetails": {"builder": {"id": f"{SOURCE}/blob/main/tools/release/build.py"}},
        },
    }
    (dist / "provenance.intoto.json").write_text(json.dumps(statement, indent=1) + "\n")


def write_checksums(dist: Path) -> None:
    """Write SHA256SUMS, as `sha256sum --check` reads it."""
    (dist / "SHA256SUMS").write_text("".join(f"{_digest(each)}  {each.name}\n" for each in _files(dist)))


def _files(dist: Path) -> list[Path]:
    return sorted(each for each in dist.iterdir() if each.is_file())


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
