"""Walks for some time: `python -m tests.real_modules --minutes 10 --seed 1`. Each difference names its seed."""

import argparse
import asyncio
import logging
import sys
import tempfile
import time
import traceback
from pathlib import Path

import structlog

from tests.real_modules.clusters import open_pair
from tests.real_modules.walk import Difference, Pair, Walk

LENGTH = 20


async def walk_for(pair: Pair, options: argparse.Namespace) -> list[int]:
    """Walk with one seed after another; return those of which a walk found something."""
    found, seed, began = [], options.seed, time.monotonic()
    while time.monotonic() - began < 60 * options.minutes:
        try:
            await Walk(pair, seed, options.prefix).run(options.length)
        except Difference as error:
            found.append(seed)
            sys.stdout.write(f"seed {seed}: {error}\n")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
            found.append(seed)
            traceback.print_exception(error, limit=-8)
        sys.stdout.flush()
        seed += 1
    return found


async def main() -> int:
    """Walk; return 1 if something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first walk (default: the time)")
    parser.add_argument("--length", type=int, default=LENGTH, help="how many steps each walk has")
    parser.add_argument("--flux", action="store_true", help="build Flux, for what can't be changed")
    parser.add_argument(
        "--clusters", nargs=2, type=Path, metavar="KUBECONFIG", help="instead of new ones: kubectl's, ours"
    )
    parser.add_argument("--prefix", default="w", help="of the names of objects, where a walk is repeated")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        async with open_pair(Path(folder), options.clusters, with_flux=options.flux) as pair:
            if options.verbose:
                pair.report = lambda text: print(text, flush=True)  # noqa: T201
            found = await walk_for(pair, options)
    count = pair.count
    healed = f"{count.healed} refused by kubectl alone, {count.forced} of these not by Flux"
    sys.stdout.write(f"{count.steps} steps; {count.refused} refused by both, {healed}\n")
    sys.stdout.write(f"seeds with differences: {found or 'none'}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
