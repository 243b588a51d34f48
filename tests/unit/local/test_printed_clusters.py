"""What `klm local up` prints: paths that can be copied, however narrow the terminal is."""

import io
from pathlib import Path

from rich.console import Console

from kyma_local.cache import Binaries
from kyma_local.certificates import create_local_ca
from kyma_local.cluster import LocalCluster
from kyma_local.clusters import LocalClusters
from kyma_local.etcd import LocalEtcd
from kyma_local.running import print_clusters


def test_paths_are_neither_cut_nor_wrapped_on_a_narrow_terminal(tmp_path: Path) -> None:
    folder, binaries, ca = tmp_path / ("long-" * 30), Binaries(tmp_path), create_local_ca()
    etcd = LocalEtcd(binaries, folder / "etcd")
    kcp, skr = (LocalCluster(name, folder / name, binaries, ca, etcd, tmp_path / name) for name in ("kcp", "skr-1"))
    printed = io.StringIO()
    print_clusters(LocalClusters(folder, kcp, (skr,), etcd), Console(file=printed, width=40, force_terminal=True))
    for each in (kcp, skr):
        assert f"{each.name:6}  {each.server}  {each.admin_kubeconfig}\n" in printed.getvalue()
