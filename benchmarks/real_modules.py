"""Measures the first installation of large real manifests, beside `kubectl apply --server-side` of the same text.

Each is installed in a new cluster, by kubectl as a program and by the reconciler in this process. The memory of the
product is what its process takes on top of what it had before; that of kubectl is all that it takes: the system tells
it of the first manifest alone, so name one in each run. Then all objects are read again, and nothing may be written.

Run by `KLM_REAL_MANIFESTS=FOLDER python -m benchmarks.real_modules [NAME...]`.
"""

import argparse
import asyncio
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from benchmarks.figures import Figure
from kube_runtime import ApiError
from lifecycle_manager.contract.signals import ReadScope
from lifecycle_manager_api import find
from tests.manifest_clusters import KEY
from tests.real_modules.clusters import open_pair
from tests.real_modules.corpus import BESIDE, VARIABLE, RealManifest, in_folder
from tests.real_modules.walk import Pair
from tests.waiting import eventually

MAX_RATIO = 1.5
LARGE = ("promop", "kyverno")
MIB = 2**20


def main() -> int:
    """Measure and print three figures for each manifest; return 1 if a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=LARGE)
    wanted = parser.parse_args().names
    found = [each for each in in_folder(Path(os.environ.get(VARIABLE) or BESIDE)) if each.name in wanted]
    figures = [figure for each in found for figure in uvloop.run(_measure(each))]
    for figure in figures:
        figure.print()
    return 0 if figures and all(figure.met for figure in figures) else 1


async def _measure(manifest: RealManifest) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="real-modules-") as folder:
        async with open_pair(Path(folder), with_flux=False) as pair:
            text = manifest.texts[1]
            theirs = await _by_kubectl(pair, text)
            ours = await _by_product(pair, text)
            writes = await _quiet_writes(pair)
    compared = [
        Figure(
            name=f"real_module_{manifest.name}_{what}",
            unit=unit,
            value=round(value, 2),
            peer="kubectl apply --server-side",
            peer_value=round(peer, 2),
            bar=f"at most {MAX_RATIO} times kubectl's",
            met=value <= MAX_RATIO * peer,
        )
        for what, unit, value, peer in zip(("time", "memory"), ("s", "MiB"), ours, theirs, strict=True)
    ]
    quiet = Figure(
        name=f"real_module_{manifest.name}_quiet_writes",
        unit="writes",
        value=writes,
        bar="none",
        met=writes == 0,
    )
    return [*compared, quiet]


async def _by_kubectl(pair: Pair, text: str) -> tuple[float, float]:
    """Return seconds, and MiB at the highest."""
    began = time.monotonic()
    problem = await pair.kubectl.apply(text)
    assert not problem, problem
    return time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


async def _by_product(pair: Pair, text: str) -> tuple[float, float]:
    """Return seconds, and MiB at the highest beyond what there were before."""
    modules = pair.modules
    await modules.want_text(text)
    await asyncio.to_thread(Path("/proc/self/clear_refs").write_text, "5")  # the highest value from here on
    before, began = _status("VmRSS"), time.monotonic()

    async def applied() -> bool:
        """Reconcile: the text is read first, which takes its time."""
        await modules.reconcile()
        manifest = await modules.manifest()
        found = find(manifest.status.conditions, "Resources") if manifest is not None else None
        return found is not None and found.status == "True"

    try:
        await eventually(applied, within=600, what="all objects are applied")
    except ApiError as error:
        raise AssertionError(f"{error}; {(await modules.condition()).message}") from None
    return time.monotonic() - began, (_status("VmHWM") - before) / MIB


async def _quiet_writes(pair: Pair) -> int:
    """Return how many writes another reconcile takes that reads all objects."""
    before = pair.writes
    await pair.modules.reconcile(KEY, ReadScope.EVERYTHING)
    return round(pair.writes - before)


def _status(name: str) -> int:
    """Return a value of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    sys.exit(main())
