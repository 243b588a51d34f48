"""The campaign: attacks each surface for its share of the time, and reports what came of it.

`make attack` attacks all for some minutes; `make attack ONLY="events registry" MINUTES=30` some for longer. A finding
is written to `tests/attack/kept/SURFACE`, so that the tests attack with it from then on: commit it with the fix.
"""

import argparse
import asyncio
import hashlib
import logging
import random
import resource
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from tests.attack.surfaces import SURFACES, Surface, attack_with

KEPT = Path(__file__).parent / "kept"
MAX_KEPT = 5


@dataclass
class Outcome:
    """What came of the attacks on one surface: how many there were, and by which exception and place they fell."""

    attacks: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    findings: dict[str, bytes] = field(default_factory=dict)


async def campaign(surface: Surface, seconds: float, first: int) -> Outcome:
    """Attack a surface with the seeds from the first one on, until the time is over."""
    outcome, began = Outcome(), time.monotonic()
    async with surface.open() as attack:
        while outcome.attacks == 0 or time.monotonic() - began < seconds:
            draw = random.Random(first + outcome.attacks)  # noqa: S311 - repeatable, and no secret
            sample, started = surface.sample(draw), time.monotonic()
            try:
                await attack_with(surface, attack, sample)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
                place = traceback.extract_tb(error.__traceback__)[-1]
                if outcome.findings.setdefault(f"{type(error).__name__}, {place.name}: {error}", sample) is sample:
                    traceback.print_exception(error, limit=-8)
            outcome.attacks += 1
            outcome.longest = max(outcome.longest, time.monotonic() - started)
    outcome.seconds = time.monotonic() - began
    return outcome


def keep(name: str, outcome: Outcome) -> None:
    """Write the samples of findings to files."""
    folder = KEPT / name
    for sample in [*outcome.findings.values()][:MAX_KEPT]:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / hashlib.sha256(sample).hexdigest()[:16]).write_bytes(sample)


def main() -> int:
    """Run the campaign; return 1 if something was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("surfaces", nargs="*", choices=[*SURFACES, []], help="all of them by default")
    parser.add_argument("--minutes", type=float, default=4.0, help="for all of them together")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the first seed (default: the time)")
    options = parser.parse_args()
    chosen = options.surfaces or [*SURFACES]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)
    found = 0
    for name in chosen:
        outcome = asyncio.run(campaign(SURFACES[name], 60 * options.minutes / len(chosen), options.seed))
        keep(name, outcome)
        found += len(outcome.findings)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        sys.stdout.write(
            f"{name:12} {outcome.attacks:7} attacks in {outcome.seconds:4.0f} s, longest {outcome.longest:5.1f} s, "
            f"{memory:4.0f} MB, {len(outcome.findings)} findings\n"
        )
        sys.stdout.flush()
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
