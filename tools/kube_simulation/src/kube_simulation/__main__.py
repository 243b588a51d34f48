"""A simulation in a process of its own, for benchmarks: prints one JSON line with its address, then serves."""

import argparse
import asyncio
import json
import sys

from kube_simulation.server import serve_simulation


async def serve(arguments: argparse.Namespace) -> None:
    """Serve until cancelled."""
    async with serve_simulation(
        host=arguments.host, port=arguments.port, history=arguments.history, records=arguments.records
    ) as simulation:
        for number in range(arguments.clusters):
            simulation.cluster(f"{arguments.prefix}{number}")
        started = {"address": simulation.address, "clusters": arguments.clusters, "prefix": arguments.prefix}
        sys.stdout.write(json.dumps(started) + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m kube_simulation", description=__doc__)
    parser.add_argument("--clusters", type=int, default=1, help="how many clusters, named PREFIX0, PREFIX1, ...")
    parser.add_argument("--prefix", default="cluster-", help="what the names of the clusters begin with")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 to have one chosen")
    parser.add_argument("--history", type=int, default=1_000, help="how many writes a cluster remembers")
    parser.add_argument("--records", type=int, default=0, help="how many requests are remembered")
    try:
        asyncio.run(serve(parser.parse_args()))
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
