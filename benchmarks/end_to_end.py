"""Measures the time from a user's write in the SKR to the applied object there, beside the same API calls back to back.

Every component is a process of its own, and both clusters are real API servers. The floor is measured in the same run,
by a client that only sends the API calls of one change. The time until the status of
the Module CR says so is compared with the time to the applied object.
"""

import subprocess
import sys
from pathlib import Path

import msgspec

from benchmarks.figures import Figure

BARS = {"median": 1.5, "p99": 2.0}
"""How many times as long as the floor a change may take."""
STATUS_BAR = 1.3


def main() -> int:
    """Run the demo once and print its figures."""
    klm = Path(sys.executable).with_name("klm")
    done = subprocess.run([klm, "demo", "--once", "--output=json"], stdout=subprocess.PIPE, check=True)
    report = msgspec.json.decode(done.stdout)
    for quantile, bar in BARS.items():
        value, floor = report["changeMs"][quantile], report["floorMs"][quantile]
        Figure(
            name=f"end_to_end_change_{quantile}",
            unit="ms",
            value=value,
            peer="the same API calls back to back",
            peer_value=floor,
            bar=f"at most {bar:g} times as long",
            met=value <= bar * floor,
        ).print()
    status, change = report["statusMs"]["median"], report["changeMs"]["median"]
    Figure(
        name="end_to_end_status_median",
        unit="ms",
        value=status,
        peer="the time to the object in force",
        peer_value=change,
        bar=f"at most {STATUS_BAR:g} times as long",
        met=status <= STATUS_BAR * change,
    ).print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
