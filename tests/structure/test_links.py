"""Every relative link in the Markdown files leads to a file that exists, and every anchor to a heading."""

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\((?P<target>[^()\s]+)\)")
HEADING = re.compile(r"#{1,6}\s+(?P<text>.+?)\s*#*$")
FENCE = re.compile(r"\s*(?P<mark>`{3,}|~{3,})")
CODE = re.compile(r"`[^`]*`")
OWN_PATH = re.compile(r"(?<![\w./:-])(?P<path>(?:api|charts|images|module_manager|tests|docs)/[\w./-]*\w)")
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//")


def markdown_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z", "*.md"], check=True, capture_output=True, text=True).stdout
    return [Path(name) for name in listed.split("\0") if name and Path(name).is_file()]


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Return the lines outside of fenced code blocks, with their numbers."""
    fence = ""
    for number, line in enumerate(text.splitlines(), start=1):
        found = FENCE.match(line)
        if fence:
            if found and found["mark"].startswith(fence):
                fence = ""
        elif found:
            fence = found["mark"]
        else:
            yield number, line


def anchors(text: str) -> frozenset[str]:
    """Return the anchors that GitHub gives to the headings: lower case, dashes for spaces, numbered if repeated."""
    seen: Counter[str] = Counter()
    found = set()
    for _, line in prose(text):
        if heading := HEADING.match(line):
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading["text"]).lower()
            anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
            found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
            seen[anchor] += 1
    return frozenset(found)


def broken_links(file: Path) -> list[str]:
    """Return each relative link of a file that leads nowhere, as `file:line: target: problem`."""
    broken = []
    for number, line in prose(file.read_text()):
        for link in LINK.finditer(CODE.sub("code", line)):
            if ELSEWHERE.match(link["target"]):
                continue
            path, _, anchor = unquote(link["target"]).partition("#")
            target = file.parent / path if path else file
            if not target.exists():
                broken.append(f"{file}:{number}: {link['target']}: no such file")
            elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
                broken.append(f"{file}:{number}: {link['target']}: no such heading")
    return broken


def test_every_relative_link_leads_to_a_file_and_a_heading_that_exist() -> None:
    files = markdown_files()
    broken = [problem for file in files for problem in broken_links(file)]
    assert len(files) > 10
    assert not broken, "\n".join(broken)


def missing_paths(file: Path) -> list[str]:
    """Return the paths below this repository's folders that the commands of a document name and that do not exist."""
    text = file.read_text()
    outside = {line for _, line in prose(text)}
    commands = [line for line in text.splitlines() if line not in outside or line.startswith("    ")]
    found = (match["path"] for line in commands for match in OWN_PATH.finditer(line))
    return [path for path in found if not Path(path).exists()]


@pytest.mark.parametrize("file", [*Path("docs").glob("*.md"), Path("README.md")], ids=str)
def test_paths_in_commands_exist(file: Path) -> None:
    assert file.name == "extending.md" or not missing_paths(file)  # that one creates a domain, and runs in a test


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("[here](#a-b)\n\n# A `b`!\n", 0),
        ("[twice](#a-1)\n# A\n# A\n", 0),
        ("[outside](https://example.com/nothing#x) and `[code](nowhere.md)`", 0),
        ("```\n[in a block](nowhere.md)\n```\n", 0),
        ("[gone](nowhere.md)", 1),
        ("[gone](#nowhere)\n# Here\n", 1),
        ("![gone](nowhere.svg) [and](nowhere.py)", 2),
        ("[a folder](.) [with `code`](nowhere.md)", 1),
    ],
)
def test_a_link_that_leads_nowhere_is_found(tmp_path: Path, text: str, problems: int) -> None:
    file = tmp_path / "page.md"
    file.write_text(text)
    assert len(broken_links(file)) == problems
