"""Lays out the Markdown files of the repository as the sources of the site, and writes Zensical's configuration.

Links between pages are kept. A link to any other file of the repository leads to REPOSITORY, such as
https://github.com/OWNER/NAME/blob/v1.2.3, where that is given, and else is text.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from tools.documentation import navigation
from tools.documentation.markdown import title, with_links
from tools.documentation.reference import pages as reference_pages
from tools.documentation.social import write_picture

DOCS = PurePosixPath("docs")
REFERENCE = DOCS / "reference"


@cache
def pages() -> Mapping[PurePosixPath, str]:
    """Return the text of every page by the path of its file, which does not exist where the page is generated."""
    found = {PurePosixPath(file): file.read_text() for file in Path(DOCS).rglob("*.md")}
    found |= {PurePosixPath(name): Path(name).read_text() for name in navigation.ROOT_PAGES}
    found |= {PurePosixPath(file): file.read_text() for file in navigation.PACKAGE_READMES}
    found |= {REFERENCE / name: text for name, text in reference_pages().items()}
    for folder, heading in navigation.FOLDERS.items():
        inner = sorted(path for path in found if path.parent == DOCS / folder)
        lines = [f"- [{title(found[path])}]({path.name})" for path in inner]
        found[DOCS / folder / "README.md"] = f"# {heading}\n\n" + "\n".join(lines) + "\n"
    return found


def place(path: PurePosixPath) -> PurePosixPath:
    """Return where the page of a file is, below the root of the site's sources."""
    if path in navigation.ROOT_PAGES_AT:
        return navigation.ROOT_PAGES_AT[path]
    if path.name == "README.md" and path.is_relative_to(DOCS):
        return path.relative_to(DOCS).with_name("index.md")
    if path.name == "README.md":
        return PurePosixPath("packages", path.parent.name + ".md")
    return path.relative_to(DOCS)


def link(source: PurePosixPath, target: str, *, repository: str) -> str | None:
    """Return a link of a page as the site has it, or None."""
    path, _, anchor = unquote(target).partition("#")
    if not path:
        return target
    file = PurePosixPath(os.path.normpath(source.parent / path))
    page = file / "README.md" if file / "README.md" in pages() else file
    if page in pages():
        there = os.path.relpath(place(page), place(source).parent)
        return f"{there}#{anchor}" if anchor else there
    if file.is_relative_to(DOCS) and Path(file).is_file():
        return os.path.relpath(file.relative_to(DOCS), place(source).parent)
    return f"{repository}/{file}" if repository else None


def build(folder: Path, *, version: str, site: str, files: str) -> int:
    """Build the site into a folder, for an address that may be empty; return the number of pages.

    Raises CalledProcessError.
    """
    shutil.rmtree(folder, ignore_errors=True)
    count = write_sources(folder / "sources", repository=files)
    picture = folder / "sources" / "pictures" / "social.png"
    write_picture(picture, title=navigation.NAME, description=navigation.DESCRIPTION, version=version)
    settings = folder / "zensical.toml"
    settings.write_text(configuration(address=f"{site.rstrip('/')}/{version}/" if site else ""))
    program = (sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(settings))
    subprocess.run(program, check=True)  # noqa: S603 - our own arguments
    return count


def write_sources(folder: Path, *, repository: str) -> int:
    """Write all pages and the files that they show; return the number of pages."""
    shutil.copytree(DOCS, folder, ignore=shutil.ignore_patterns("*.md"))
    for path, text in pages().items():
        file = folder / place(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(with_links(text, partial(link, path, repository=repository)))
    return len(pages())


def configuration(*, address: str) -> str:
    """Return the configuration of Zensical for a site at this address, which may be empty."""
    return navigation.CONFIGURATION.format(
        name=navigation.NAME,
        description=navigation.DESCRIPTION,
        address=f'site_url = "{address}"' if address else "",
        # Only a published site is beside others, and has their list.
        versions='[project.extra.version]\nprovider = "mike"' if address else "",
        theme=navigation.THEME,
        navigation=_toml(navigation.NAVIGATION),
    )


def unlisted() -> frozenset[str]:
    """Return the pages that no entry of the navigation leads to."""
    return frozenset(str(place(path)) for path in pages()) - frozenset(navigation.listed())


def _toml(value: object) -> str:
    match value:
        case Mapping():
            return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items()) + " }"
        case list() | tuple():
            return "[\n" + "".join(f"{_toml(each)},\n" for each in value) + "]"
        case _:
            return json.dumps(value)
