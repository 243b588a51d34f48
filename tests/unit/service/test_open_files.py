"""The limit of open files is raised as far as the process may, and a warning says where that is too low."""

import resource
from collections.abc import Iterator

import pytest
import structlog

from lifecycle_manager.process.open_files import allow_open_files


@pytest.fixture(autouse=True)
def lowered() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1024), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_soft_limit_is_raised_to_the_hard_one() -> None:
    with structlog.testing.capture_logs() as logs:
        allow_open_files(event_connections=10, clients=10)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft == hard
    assert logs == []


def test_limit_that_the_options_can_reach_is_logged() -> None:
    with structlog.testing.capture_logs() as logs:
        allow_open_files(event_connections=2**40, clients=1000)
    (line,) = logs
    assert line["limit"] < line["needed"]
    assert line["log_level"] == "warning"
