"""Looks up what is locked and what the images contain among known vulnerabilities: `python -m tools.release.scan`.

The OSV scanner asks osv.dev; with OSV_SCANNER_LOCAL_DB_CACHE_DIRECTORY and `--offline` it reads downloaded databases.
A vulnerability that a newer version fixes is a failure; others are counted.
"""

import subprocess
import sys
from pathlib import Path

import msgspec

from kyma_local.go_programs import GoProgram

OSV_SCANNER = GoProgram(name="osv-scanner", module="github.com/google/osv-scanner/v2", version="v2.4.0")
LOCKS = (Path("uv.lock"), Path("libraries/api/go/go.mod"))
IMAGES = Path(".local/images")


class Range(msgspec.Struct):
    events: list[dict[str, str]] = []


class Affected(msgspec.Struct):
    ranges: list[Range] = []


class Vulnerability(msgspec.Struct):
    id: str
    affected: list[Affected] = []

    @property
    def fixed(self) -> bool:
        """Whether a version of the package fixes it."""
        return any("fixed" in event for each in self.affected for range_ in each.ranges for event in range_.events)


class Package(msgspec.Struct):
    name: str
    version: str


class Finding(msgspec.Struct):
    package: Package
    vulnerabilities: list[Vulnerability] = []


class Source(msgspec.Struct):
    packages: list[Finding] = []


class Report(msgspec.Struct):
    """The part of the scanner's report that is used."""

    results: list[Source] = []


def main() -> int:
    """Return 1 if a vulnerability can be fixed, and the scanner's exit code if it failed."""
    scanned = (*LOCKS, *sorted(IMAGES.glob("*.spdx.json")))
    command = [
        OSV_SCANNER.find(),
        "scan",
        "source",
        "--format=json",
        *sys.argv[1:],
        *(f"--lockfile={x}" for x in scanned),
    ]
    done = subprocess.run(list(map(str, command)), check=False, stdout=subprocess.PIPE)
    if done.returncode not in {0, 1}:
        return done.returncode
    found = set(findings(msgspec.json.decode(done.stdout, type=Report)))
    lines = sorted(f"{package}: {vulnerability}" for package, vulnerability, fixed in found if fixed)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.write(f"{len(scanned)} lists: {len(lines)} to fix, {len(found) - len(lines)} without a fix\n")
    return int(bool(lines))


def findings(report: Report) -> list[tuple[str, str, bool]]:
    """Return each package with each of its vulnerabilities, and whether a version fixes it."""
    return [
        (f"{each.package.name} {each.package.version}", known.id, known.fixed)
        for source in report.results
        for each in source.packages
        for known in each.vulnerabilities
    ]


if __name__ == "__main__":
    sys.exit(main())
