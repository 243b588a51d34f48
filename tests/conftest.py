"""What all tests have in common."""

import asyncio

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes, and its making, says more about the machine than about the code.
settings.register_profile("on any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("on any machine")

# looptime asks for the current loop before every test; where there never was one, asyncio would make one that nobody
# closes.
asyncio.set_event_loop(None)


@pytest.hookimpl(trylast=True)  # after those that mark
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Name the group of a test in its id, from which xdist's `--dist loadgroup` reads it.

    xdist 3.8 does so itself, but in an attribute that pytest reads no more since 9.2 (pytest-xdist's issue 1386). Then
    what a group shares, such as clusters, is made by every worker.
    """
    if not config.getoption("loadgroup", False):  # which xdist sets in its workers
        return
    for item in items:
        mark = item.get_closest_marker("xdist_group")
        if mark is not None and not item.nodeid.endswith(f"@{mark.args[0]}"):
            item._id = type(item.id).parse(f"{item.nodeid}@{mark.args[0]}")
