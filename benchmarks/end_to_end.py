"""Measures the time from a user's write in the SKR to the applied object there, beside the same API calls back to back.

Every component is a process of its own, and both clusters are real API servers. The floor is measured in the same run,
by a client that only sends the API calls of one change.
"""

import subprocess
import sys
from pathlib import Path

import msgspec

from benchmarks.figures import Figure

MEDIAN_BAR_MS = 50.0
P99_BAR_MS = 250.0


def main() -> int:
    """Run the demo once and print its figures."""
    klm = Path(sys.executable).with_name("klm")
    done = subprocess.run([klm, "demo", "--once", "--json"], stdout=subprocess.PIPE, check=True)
    report = msgspec.json.decode(done.stdout)
    for quantile, bar in (("median", MEDIAN_BAR_MS), ("p99", P99_BAR_MS)):
        value = report["change_ms"][quantile]
        Figure(
            name=f"end_to_end_change_{quantile}",
            unit="ms",
            value=value,
            peer="the same API calls back to back",
            peer_value=report["floor_ms"][quantile],
            bar=f"under {bar:g} ms",
            met=value < bar,
        ).print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
