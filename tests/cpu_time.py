"""Claims about the CPU time of code that reads hostile input, asked in a way that no busy machine can refute.

Other programs on a machine make code slower for a moment, and never faster. So a claim is asked up to ATTEMPTS times
and holds when it held once: code that grows with the square of its input holds it at no attempt.
"""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
ATTEMPTS = 20
TIMES = 16


def is_linear(work: Callable[[T], object], make: Callable[[int], T], *, size: int) -> bool:
    """Tell whether the CPU time of work grows with the size of what `make` returns, and not with its square.

    An input that is 16 times as large takes 16 times as long, or 256 times: the limit is in the middle.
    """
    small, large = make(size), make(size * TIMES)
    return any(seconds_of(work, large) < TIMES**1.5 * seconds_of(work, small) for _ in range(ATTEMPTS))


def takes_at_most(seconds: float, work: Callable[[], object]) -> bool:
    """Tell whether work takes at most this CPU time."""
    return any(seconds_of(lambda _: work(), None) < seconds for _ in range(ATTEMPTS))


def seconds_of(work: Callable[[T], object], argument: T) -> float:
    """Return the CPU time of this thread in work."""
    began = time.thread_time()
    work(argument)
    return time.thread_time() - began
