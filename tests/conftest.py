"""Settings of all tests."""

import asyncio
import gc
import os
from collections import Counter
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling

pytest_plugins = ["tests.fips"]

# What a test prints, and what one of pytest in it does, depends on nobody's terminal and settings.
os.environ["TERM"] = "xterm-256color"
os.environ.pop("PYTEST_ADDOPTS", None)

# The servers of tests are on this machine, where no proxy of it leads to.
excepted = os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or ""
os.environ["NO_PROXY"] = os.environ["no_proxy"] = f"{excepted},127.0.0.1,localhost,::1".lstrip(",")

# The API servers of tests live for minutes: a seventh of their CPU time is that of Go's garbage collector.
os.environ.setdefault("GOGC", "400")

# The duration of an example depends on the machine more than on the code.
settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples at each run, so that what a change has to pass does not depend on chance. `make fuzz` takes others,
# and more of them.
settings.register_profile("repeatable", settings.get_profile("random"), derandomize=True, max_examples=40)
settings.load_profile("repeatable")

# looptime requests the current loop before every test; without one, asyncio would create one that is not closed.
asyncio.set_event_loop(None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, which finds nothing there: a sixth of the time of each worker."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Keep the garbage collector from searching what was collected here: a fifth of the time of the unit tests.

    It searches what the tests make after each 50,000 objects, by default after 700: 2 to 8 % of their time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


class GroupsAndFiles(LoadGroupScheduling):
    """Gives a worker the tests of a group, or those of a file: what they share is started once."""

    def _split_scope(self, nodeid: str) -> str:
        return super()._split_scope(nodeid).partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupsAndFiles | None:
    return GroupsAndFiles(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.hookimpl(trylast=True)  # after the hooks that add marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Name the group of a test in its id, from which xdist's `--dist loadgroup` reads it.

    xdist 3.8 sets an attribute that pytest ignores since 9.2 (pytest-xdist's issue 1386), so every worker would
    start the clusters of a group. Groups come first, the largest at the start: they wait, and the others fill the time.
    Then come in a row all that need the server of a worker, which ends with the last of them.
    """
    if not config.getoption("loadgroup", False):  # set by xdist in its workers
        return
    marks = {item: mark.args[0] for item in items if (mark := item.get_closest_marker("xdist_group"))}
    sizes = Counter(marks.values())
    need_the_server = {_unit(item, marks) for item in items if "real" in getattr(item, "fixturenames", ())}

    def turn(item: pytest.Item) -> tuple[int, int, str]:
        if _unit(item, marks) in need_the_server:
            return 1, 0, ""
        return (0, -sizes[marks[item]], marks[item]) if item in marks else (2, 0, "")

    items.sort(key=turn)
    for item, group in marks.items():
        if not item.nodeid.endswith(f"@{group}"):
            item._id = type(item.id).parse(f"{item.nodeid}@{group}")  # noqa: SLF001 - pytest has no setter


def _unit(item: pytest.Item, marks: dict[pytest.Item, str]) -> str:
    """Return the group of a test, or its file."""
    return marks.get(item) or str(item.path)
