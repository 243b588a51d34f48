"""The site as it is built and published: pages, the picture that others show, and the switch between versions."""

import json
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest
from PIL import Image

from tools.documentation.site import build, configuration
from tools.documentation.versions import publish

pytestmark = [
    pytest.mark.skipif(find_spec("zensical") is None, reason="zensical is not installed: make docs"),
    pytest.mark.xdist_group("site"),
]
SITE = "https://example.com/docs"


class Head(HTMLParser):
    """What a page says about itself."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.properties: dict[str, str] = {}
        self.scripts: list[str] = []
        self._in_settings = False
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "meta":
            self.properties[given.get("property") or given.get("name") or ""] = given.get("content") or ""
        self._in_settings = tag == "script" and given.get("id") == "__config"

    def handle_data(self, data: str) -> None:
        if self._in_settings:
            self.scripts.append(data)


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert build(folder, version="1.2.0", site=SITE, files="https://example.com/files") > 100
    return folder / "html"


def pages(html: Path) -> list[Path]:
    return [page for page in html.rglob("index.html") if "assets" not in page.parts]


def test_each_page_has_the_picture_with_an_absolute_address(html: Path) -> None:
    heads = {page: Head(page).properties for page in pages(html)}
    assert len(heads) > 100
    assert {each["og:image"] for each in heads.values()} == {f"{SITE}/1.2.0/pictures/social.png"}
    assert {each["twitter:card"] for each in heads.values()} == {"summary_large_image"}
    assert len({each["og:title"] for each in heads.values()}) > 90
    start = heads[html / "start/operator/index.html"]
    assert (start["og:title"], start["og:url"]) == ("Start as an operator", f"{SITE}/1.2.0/start/operator/")


def test_picture_has_the_size_that_pages_give(html: Path) -> None:
    properties = Head(html / "index.html").properties
    with Image.open(html / "pictures/social.png") as picture:
        assert picture.size == (int(properties["og:image:width"]), int(properties["og:image:height"])) == (1200, 630)
        assert len(picture.getcolors(1 << 20) or ()) > 5


def test_each_page_reads_the_list_of_versions(html: Path) -> None:
    settings = Head(html / "klm/index.html").scripts[0]
    assert json.loads(settings)["version"] == {"provider": "mike"}


def test_site_that_is_not_published_asks_for_no_list_of_versions() -> None:
    assert 'provider = "mike"' in configuration(address=SITE)
    assert "mike" not in configuration(address="")


def test_versions_are_published_beside_each_other(html: Path, tmp_path: Path) -> None:
    for version in ("1.2.0", "1.10.0", "1.9.1", "2.0.0rc1", "1.2.0"):
        publish(html, into=tmp_path, version=version)
    listed = json.loads((tmp_path / "versions.json").read_text())
    assert [each["version"] for each in listed] == ["2.0.0rc1", "1.10.0", "1.9.1", "1.2.0"]
    assert [each["version"] for each in listed if "latest" in each["aliases"]] == ["1.10.0"]
    assert 'url=1.10.0/"' in (tmp_path / "index.html").read_text()
    assert all((tmp_path / each["version"] / "klm/index.html").is_file() for each in listed)


def test_version_that_is_none_is_not_published(html: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="invalid version 'main'"):
        publish(html, into=tmp_path, version="main")
    assert list(tmp_path.iterdir()) == []
