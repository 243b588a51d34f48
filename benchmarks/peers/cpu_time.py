"""The CPU time of another process, in all its threads, to the nanosecond: /proc knows ticks of 10 ms only."""

import time

__all__ = ["cpu_seconds"]


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used. Linux has a clock for each, as clock_getcpuclockid(3) tells."""
    return time.clock_gettime(~pid << 3 | 2)
