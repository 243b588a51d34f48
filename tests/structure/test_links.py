"""Every relative link in the Markdown files leads to a page or file that exists, and every anchor to a heading.

`make docs` checks the same in the site. Here the pages are read as they are, with those that are generated from code.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

import pytest

from tools.documentation.markdown import anchors, links, prose
from tools.documentation.reference import FOLDER
from tools.documentation.site import pages, unlisted

OWN_PATH = re.compile(
    r"(?<![\w./:-])(?P<path>(?:benchmarks|charts|docs|extras|libraries|operators|tests|tools)/[\w./-]*\w)"
)
WRITTEN_BY_HAND = [*(file for file in Path("docs").rglob("*.md") if file.parent != FOLDER), Path("README.md")]
WRITTEN = frozenset({"benchmarks/results"})
"""What commands create."""
Texts = Mapping[PurePosixPath, str]


def markdown() -> Texts:
    """Return the texts of all tracked files, and of all generated pages."""
    listed = subprocess.run(["git", "ls-files", "-z", "*.md"], check=True, capture_output=True, text=True).stdout
    files = [PurePosixPath(name) for name in listed.split("\0") if name and Path(name).is_file()]
    return {**{file: Path(file).read_text() for file in files}, **pages()}


def broken_links(file: PurePosixPath, texts: Texts) -> Iterator[str]:
    """Yield each relative link of a file that leads nowhere, as `file:line: target: problem`."""
    for number, link in links(texts[file]):
        path, _, anchor = unquote(link).partition("#")
        target = PurePosixPath(os.path.normpath(file.parent / path)) if path else file
        if target not in texts and not Path(target).exists():
            yield f"{file}:{number}: {link}: no such file"
        elif anchor and target in texts and anchor not in anchors(texts[target]):
            yield f"{file}:{number}: {link}: no such heading"


def test_every_relative_link_leads_to_a_file_and_a_heading_that_exist() -> None:
    texts = markdown()
    broken = [problem for file in texts for problem in broken_links(file, texts)]
    assert len(texts) > 50
    assert not broken, "\n".join(broken)


def test_navigation_of_the_site_has_every_page() -> None:
    assert unlisted() == frozenset()


def missing_paths(file: Path) -> list[str]:
    """Return the paths below this repository's folders that the code of a document names and that do not exist."""
    text = file.read_text()
    outside = {line for _, line in prose(text)}
    commands = [line for line in text.splitlines() if line not in outside or line.startswith("    ")]
    named = re.findall(r"`([^`\s]+)`", text)
    found = (match["path"] for code in (*commands, *named) for match in OWN_PATH.finditer(code))
    return [path for path in found if not Path(path).exists() and path not in WRITTEN]


@pytest.mark.parametrize("file", WRITTEN_BY_HAND, ids=str)
def test_paths_in_code_exist(file: Path) -> None:
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
def test_a_link_that_leads_nowhere_is_found(text: str, problems: int) -> None:
    page = PurePosixPath("page.md")
    assert len(list(broken_links(page, {page: text}))) == problems
