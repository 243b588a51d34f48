"""Progress is printed as lines without a terminal, and as a bar that disappears on a terminal."""

import io
from types import SimpleNamespace
from unittest.mock import patch

from rich.console import Console

from kyma_local.progress import progress_on


def test_each_task_is_printed_once() -> None:
    output = io.StringIO()
    with progress_on(Console(file=output, force_terminal=False)) as listener:
        listener.doing("building etcd")
        for part in range(100):
            listener.done(part, 100)
        listener.doing("building [Kubernetes]")
    assert output.getvalue() == "building etcd\nbuilding [Kubernetes]\n"


def test_progress_is_printed_after_an_interval() -> None:
    output = io.StringIO()
    moments = iter([0.0, 0.0, 0.0, 30.0, 30.0, 30.0])
    console = Console(file=output, force_terminal=False)
    clock = SimpleNamespace(monotonic=lambda: next(moments))  # theirs alone: other threads go by the real one
    with patch("kyma_local.progress.time", clock), progress_on(console) as listener:
        listener.doing("building")
        listener.done(50, 200)
    assert "building: 25 %" in output.getvalue()


def test_bar_on_a_terminal_shows_the_task_and_disappears() -> None:
    output = io.StringIO()
    with progress_on(Console(file=output, force_terminal=True, width=80)) as listener:
        listener.doing("building etcd")
        listener.done(30, 60)
    assert "building etcd" in output.getvalue()
    assert output.getvalue().rstrip().endswith("\x1b[2K")
