"""The version of all distributions and charts, which are released together: `python -m tools.release.version [0.2.0]`.

Without an argument it is printed; with `--tag v0.2.0` it is compared with a tag. The distributions require each other
in this minor version: `>=0.1.0,<0.2`.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

MEMBERS = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["uv"]["workspace"]["members"]
PROJECTS = sorted(file for where in MEMBERS for file in Path().glob(f"{where}/pyproject.toml"))
CHARTS = sorted(Path("charts").glob("*/Chart.yaml"))
VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")


def main() -> int:
    """Print the version, or set it."""
    match sys.argv[1:]:
        case []:
            sys.stdout.write(f"{current()}\n")
        case ["--tag", tag]:
            if tag != f"v{current()}":
                sys.stderr.write(
                    f"tag {tag} is not the version {current()}: run python -m tools.release.version X.Y.Z first\n"
                )
                return 1
        case [version] if VERSION.fullmatch(version):
            set_version(version)
            subprocess.run([Path(sys.executable).with_name("uv"), "lock", "--quiet"], check=True)
        case _:
            sys.stderr.write("usage: python -m tools.release.version [X.Y.Z | --tag vX.Y.Z]\n")
            return 2
    return 0


def current() -> str:
    """Return the version. Raises ValueError where not all have the same."""
    found = {*versions()}
    if len(found) != 1:
        raise ValueError(f"distributions and charts have several versions: {', '.join(sorted(found))}")
    return found.pop()


def versions() -> Iterator[str]:
    for project in PROJECTS:
        yield tomllib.loads(project.read_text())["project"]["version"]
    for chart in CHARTS:
        yield from re.findall(r"^(?:version|appVersion): (.+)$", chart.read_text(), re.MULTILINE)


def bounds_of(version: str) -> str:
    """Return how distributions of this version require each other."""
    major, minor = map(int, version.split(".")[:2])
    return f">={version},<{major}.{minor + 1}"


def set_version(version: str) -> None:
    """Write the version into all distributions and charts, with the bounds between them."""
    ours = "|".join(tomllib.loads(each.read_text())["project"]["name"] for each in PROJECTS)
    required = re.compile(rf'(?<!^name = )"({ours})((?:\[[a-z,]+\])?)(?:[<>=~!][^"]*)?"', re.MULTILINE)
    for project in PROJECTS:
        head, separator, tail = project.read_text().partition("\n[project.urls]")
        head = re.sub(r'^version = ".*"$', f'version = "{version}"', head, count=1, flags=re.MULTILINE)
        head = required.sub(rf'"\g<1>\g<2>{bounds_of(version)}"', head)
        project.write_text(head + separator + tail)
    for chart in CHARTS:
        text = re.sub(r"^(version|appVersion): .+$", rf"\1: {version}", chart.read_text(), flags=re.MULTILINE)
        chart.write_text(text)


if __name__ == "__main__":
    sys.exit(main())
