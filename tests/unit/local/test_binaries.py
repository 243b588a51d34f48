"""The binaries come from the first source that has all of them; the error names every source."""

import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Lock

import pytest

from kyma_local.binaries import BinariesMissing, find_binaries, sources_for
from kyma_local.cache import Binaries, cache_folder, present_binaries
from kyma_local.platforms import Platform
from kyma_local.progress import Listener
from kyma_local.sources import NAMES, SourceFailed, Versions

WANTED = Versions("v9.9.9", "v8.8.8")


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no assets set up by others."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path


def holding(folder: Path, names: tuple[str, ...] = NAMES) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(stat.S_IRWXU)
    return folder


class Source:
    """A source that has what it is told to have, and counts how often it is asked."""

    def __init__(self, names: tuple[str, ...] = NAMES, failure: str = "") -> None:
        self.names, self.failure, self.asked = names, failure, 0
        self.lock = Lock()

    def __call__(self, target: Path, versions: Versions, listener: Listener) -> None:
        with self.lock:
            self.asked += 1
        assert versions == WANTED
        listener.doing("fetching")
        holding(target, self.names)
        if self.failure:
            raise SourceFailed(self.failure)


def test_kubebuilder_assets_come_first(caches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assets = holding(caches / "assets")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    source = Source()
    assert find_binaries(versions=WANTED, sources=[("a", source)]).kube_apiserver == assets / "kube-apiserver"
    assert source.asked == 0


def test_filled_cache_is_used() -> None:
    source = Source()
    first = find_binaries(versions=WANTED, sources=[("a", source)])
    assert find_binaries(versions=WANTED, sources=[("a", source)]) == first
    assert first.folder == cache_folder(WANTED) != cache_folder(Versions("v9.9.9", "v8.8.9"))
    assert source.asked == 1


def test_next_source_is_used_after_a_failure_of_which_nothing_is_kept() -> None:
    first, second = Source(NAMES[:1], "cut off half-way"), Source()
    found = find_binaries(versions=WANTED, sources=[("first", first), ("second", second)])
    assert (first.asked, second.asked) == (1, 1)
    assert sorted(path.name for path in found.folder.iterdir()) == sorted(NAMES)


def test_simultaneous_requests_fetch_the_binaries_once_and_one_says_that_it_waits() -> None:
    source, waits = Source(), Event()

    class Waiting(Listener):
        def doing(self, what: str) -> None:
            waits.set()

    def fetch(target: Path, versions: Versions, listener: Listener) -> None:
        assert waits.wait(60)
        source(target, versions, listener)

    def find() -> Path:
        return find_binaries(Waiting(), versions=WANTED, sources=[("a", fetch)]).folder

    with ThreadPoolExecutor(2) as pool:
        folders = [each.result() for each in [pool.submit(find), pool.submit(find)]]
    assert folders[0] == folders[1]
    assert source.asked == 1


def test_error_names_each_source_and_a_solution(caches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(holding(caches / "assets", NAMES[:2])))
    sources = [("releases", Source((), "no route to it")), ("build", Source((), "no Go"))]
    with pytest.raises(BinariesMissing) as caught:
        find_binaries(versions=WANTED, sources=sources)
    message = str(caught.value)
    for expected in (
        "$KUBEBUILDER_ASSETS",
        "has not all of",
        "cache",
        "releases: no route to it",
        "build: no Go",
        "v9.9.9",
    ):
        assert expected in message
    assert "install Go" in message
    assert not cache_folder(WANTED).exists()


@pytest.mark.parametrize(
    ("platform", "sources"),
    [
        (Platform("linux", "amd64"), ["official releases", "build from Go modules"]),
        (Platform("linux", "arm64"), ["official releases", "build from Go modules"]),
        (Platform("linux", "riscv64"), ["build from Go modules"]),
        (Platform("darwin", "arm64"), ["build from Go modules"]),
        (Platform("darwin", "amd64"), ["build from Go modules"]),
        (Platform("win32", "amd64"), []),
    ],
)
def test_sources_are_those_that_exist_for_the_platform(platform: Platform, sources: list[str]) -> None:
    assert [name for name, _ in sources_for(platform)] == sources


def test_another_system_is_named_with_what_works_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(BinariesMissing, match=r"Linux and macOS; this is win32-.*WSL"):
        find_binaries(versions=WANTED)


def test_binaries_of_a_cache_are_used_on_every_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "freebsd14")
    assert present_binaries(WANTED) is None
    found = holding(cache_folder(WANTED))
    assert find_binaries(versions=WANTED) == present_binaries(WANTED) == Binaries(found)
