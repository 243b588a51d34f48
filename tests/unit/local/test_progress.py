"""Progress is told as lines where there is no terminal, and as a bar that leaves nothing behind where there is one."""

import io
from types import SimpleNamespace
from unittest.mock import patch

from rich.console import Console

from kyma_local.progress import told_on


def test_lines_name_each_thing_once() -> None:
    output = io.StringIO()
    with told_on(Console(file=output, force_terminal=False)) as listener:
        listener.doing("building etcd")
        for part in range(100):
            listener.done(part, 100)
        listener.doing("building [Kubernetes]")
    assert output.getvalue() == "building etcd\nbuilding [Kubernetes]\n"


def test_lines_tell_how_far_it_is_after_a_while() -> None:
    output = io.StringIO()
    moments = iter([0.0, 0.0, 0.0, 30.0, 30.0, 30.0])
    console = Console(file=output, force_terminal=False)
    clock = SimpleNamespace(monotonic=lambda: next(moments))  # theirs alone: other threads go by the real one
    with patch("kyma_local.progress.time", clock), told_on(console) as listener:
        listener.doing("building")
        listener.done(50, 200)
    assert "building: 25 %" in output.getvalue()


def test_a_bar_on_a_terminal_shows_what_is_done_and_goes_away() -> None:
    output = io.StringIO()
    with told_on(Console(file=output, force_terminal=True, width=80)) as listener:
        listener.doing("building etcd")
        listener.done(30, 60)
    assert "building etcd" in output.getvalue()
    assert output.getvalue().rstrip().endswith("\x1b[2K")
