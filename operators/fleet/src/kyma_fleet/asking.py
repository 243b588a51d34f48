"""The question that a command asks before it changes much."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def confirmed(question: str, *, yes: bool) -> bool:
    """Tell whether somebody at the terminal agrees; without a terminal nobody does.

    It is asked on stderr: stdout may be a document. Raises KeyboardInterrupt at Ctrl-C.
    """
    if yes or not sys.stdin.isatty():
        return yes
    with _ended_by_ctrl_c():
        while True:
            sys.stderr.write(f"{question} [y/N]: ")
            sys.stderr.flush()
            answer = sys.stdin.readline()
            if answer.strip().lower() in {"y", "yes"}:
                return True
            if answer.strip().lower() in {"", "n", "no"}:
                return False


@contextmanager
def _ended_by_ctrl_c() -> Iterator[None]:
    """Have Ctrl-C raise at once: an event loop would only notice it after the answer."""
    if threading.current_thread() is not threading.main_thread():  # no other hears signals
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        raise
    finally:
        signal.signal(signal.SIGINT, before)
