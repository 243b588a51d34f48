"""Ends with 0 where the tests on real nodes can run without building the programs of nodes; says otherwise why not."""

import sys

from kyma_local.cache import cache_root
from kyma_local.nodes.programs import PROGRAMS
from kyma_local.nodes.requirements import missing
from kyma_local.sources import KUBERNETES


def main() -> int:
    lacking = list(missing())
    if not all((cache_root() / f"node-{KUBERNETES}" / name).exists() for name in PROGRAMS):
        lacking.append("the programs of nodes, which `klm local binaries --nodes` builds")
    if lacking:
        sys.stderr.write(f"The tests on real nodes are skipped; missing: {', '.join(lacking)}\n")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
