"""The published site: a folder for each version, the list that the version switch reads, and a way to the newest."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

LIST = "versions.json"
LATEST = "latest"
VERSION = re.compile(r"(?P<release>\d+\.\d+\.\d+)(?P<pre>(?:a|b|rc)\d+)?")


def publish(html: Path, *, into: Path, version: str) -> None:
    """Put the site of a version into the folder of all versions; one that is there already is replaced.

    Raises ValueError for an invalid version.
    """
    _order(version)
    shutil.rmtree(into / version, ignore_errors=True)
    shutil.copytree(html, into / version)
    known = into / LIST
    listed = json.loads(known.read_text()) if known.exists() else []
    names = sorted({version, *(each["version"] for each in listed)}, key=_order, reverse=True)
    newest = next((name for name in names if not _is_preliminary(name)), names[0])
    entries = [_entry(name, is_newest=name == newest) for name in names]
    known.write_text(json.dumps(entries, indent=2) + "\n")
    (into / "index.html").write_text(_redirect(newest))
    (into / ".nojekyll").touch()


def _entry(version: str, *, is_newest: bool) -> dict[str, Any]:
    return {"version": version, "title": version, "aliases": [LATEST] if is_newest else []}


def _order(version: str) -> tuple[list[int], bool, str]:
    """Return a key by which preliminary versions come before their release."""
    found = VERSION.fullmatch(version)
    if found is None:
        raise ValueError(f"invalid version {version!r}: expected X.Y.Z, or with a, b or rc and a number")
    return [int(each) for each in found["release"].split(".")], found["pre"] is None, found["pre"] or ""


def _is_preliminary(version: str) -> bool:
    return not _order(version)[1]


def _redirect(version: str) -> str:
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>Version {version}</title>\n'
        f'<meta http-equiv="refresh" content="0; url={version}/">\n<a href="{version}/">{version}</a>\n</html>\n'
    )
