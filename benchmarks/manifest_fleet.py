"""Measures a module of half a megabyte for a fleet of 1,000 clusters: 500 MB of CRDs, downloaded and parsed once.

The objects of the module are requested for every cluster at the same time. The peer parses the text for each of them;
its time is computed from parsing it once.

Run by `python -m benchmarks.manifest_fleet [--clusters 1000]`.
"""

import argparse
import asyncio
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import uvloop

from benchmarks.figures import Figure
from kube_runtime import parse_objects
from kyma_oci import Login, Registries
from lifecycle_manager.module_installation.rendering import Renderings
from lifecycle_manager.module_sources import Blobs, ObjectStore, source_in
from tests.modules import as_text, operator
from tests.registries import blob_server, packed

BAR = 0.01


def main() -> int:
    """Measure and print one figure; return 1 if the bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=1000)
    ours, peer, downloads = uvloop.run(_measure(parser.parse_args().clusters))
    met = ours / peer <= BAR and downloads == 1
    Figure(
        name="manifest_fleet",
        unit="CPU ms",
        value=round(ours * 1000, 1),
        peer="parsing the text for each cluster",
        peer_value=round(peer * 1000, 1),
        bar=f"{BAR:g} of the peer or less, and one download",
        met=met,
    ).print()
    return 0 if met else 1


async def _measure(clusters: int) -> tuple[float, float, int]:
    """Return the CPU seconds of the fleet and of the peer, and the number of downloads of the layer."""
    text = as_text(operator("fleet", "1.0.0", properties=1350))
    began = time.process_time()
    parse_objects(text)
    peer = (time.process_time() - began) * clusters
    async with blob_server() as layers:
        digest = layers.hold(packed({"module.yaml": text}))
        location = {"type": "oci-ref", "repo": f"http://{layers.host}/modules", "name": "fleet", "ref": digest}
        source = source_in(msgspec.Raw(msgspec.json.encode(location)))
        with TemporaryDirectory() as folder:
            registries, renderings = Registries(), Renderings()
            store = ObjectStore(registries, _no_link, Blobs(Path(folder)))
            began = time.process_time()
            found = await asyncio.gather(*(store.objects(source, _nobody) for _ in range(clusters)))
            for each in found:
                renderings.of(each, ())
            ours = time.process_time() - began
            await registries.close()
        return ours, peer, len(layers.asked)


async def _nobody(_host: str) -> Login | None:
    return None


async def _no_link(link: str) -> str:
    raise AssertionError(link)


if __name__ == "__main__":
    sys.exit(main())
