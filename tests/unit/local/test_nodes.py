"""What a node needs: programs that are built once, images, cgroups, and a machine that can run it."""

import os
import stat
import sys
import tarfile
from pathlib import Path

import msgspec
import pytest

from kyma_local import go_build
from kyma_local.nodes import folders
from kyma_local.nodes.folders import cgroup_roots, make_cgroups, node_folder, remove_left_behind
from kyma_local.nodes.images import write_images
from kyma_local.nodes.node import Nodes
from kyma_local.nodes.programs import IN_IMAGES, PROGRAMS, find_programs
from kyma_local.nodes.requirements import NodesUnavailable, require_nodes
from kyma_local.progress import Listener
from kyma_local.sources import KUBERNETES, SourceFailed


@pytest.fixture
def cgroups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of the cgroups of version 1: two hierarchies, and a link to one of them."""
    root = tmp_path / "cgroup"
    for hierarchy in ("cpu", "cpuset"):
        (root / hierarchy).mkdir(parents=True)
        (root / hierarchy / "cgroup.procs").touch()
    (root / "cpu,cpuacct").symlink_to(root / "cpu")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(folders, "CGROUPS", root)
    return root


def test_cgroup_is_made_in_each_hierarchy_of_version_1(cgroups: Path) -> None:
    (cgroups / "cpuset" / "cpuset.cpus").write_text("0-1\n")
    assert cgroup_roots() == (cgroups / "cpu", cgroups / "cpuset")
    make_cgroups("node")
    assert (cgroups / "cpu" / "node").is_dir()
    assert (cgroups / "cpuset" / "node" / "cpuset.cpus").read_text() == "0-1\n"


def test_cgroup_of_version_2_gets_its_controllers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "CGROUPS", tmp_path)
    for name in ("cgroup.controllers", "cgroup.procs", "cgroup.subtree_control", "cpuset.cpus.effective"):
        (tmp_path / name).touch()
    make_cgroups("node")
    assert (tmp_path / "node").is_dir()
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpuset +cpu +memory +pids"


def test_folder_and_cgroups_end_with_their_process(cgroups: Path) -> None:
    with node_folder() as folder:
        (folder / "state").mkdir()
        (cgroups / "cpu" / folder.name / "kubepods").mkdir()
        remove_left_behind(folder.parent)
        assert (folder / "state").is_dir(), "it is in use"
        assert (cgroups / "cpu" / folder.name).is_dir()
    assert not folder.exists()
    assert not (cgroups / "cpu" / folder.name).exists()


def test_what_a_killed_process_left_is_removed(cgroups: Path) -> None:
    with node_folder() as folder:
        left = folder.with_name("klm-node-left")
        (left / "state").mkdir(parents=True)
        (cgroups / "cpu" / left.name / "kubepods").mkdir(parents=True)
        remove_left_behind(folder.parent)
        assert not left.exists()
        assert not (cgroups / "cpu" / left.name).exists()
        assert folder.exists()


def test_images_have_one_program_each_and_the_names_that_pods_use(tmp_path: Path) -> None:
    for name in IN_IMAGES:
        (tmp_path / name).write_text(name)
    for name, path in zip(IN_IMAGES, write_images(tmp_path, tmp_path), strict=True):
        with tarfile.open(path) as archive:
            index = archive.extractfile("index.json")
            assert index is not None
            (manifest,) = msgspec.json.decode(index.read())["manifests"]
        assert manifest["annotations"]["io.containerd.image.name"] == f"localhost/{name}:local"
    assert not list(tmp_path.glob("*.layer.tar"))


def test_image_of_the_watcher_is_for_user_clusters(tmp_path: Path) -> None:
    for name in ("lifecycle-manager.tar", "skr-watcher.tar", "skr-watcher.spdx.json"):
        (tmp_path / name).touch()
    nodes = Nodes.with_images_in(tmp_path, tmp_path)
    assert nodes.kcp_images == (tmp_path / "lifecycle-manager.tar",)
    assert nodes.skr_images == (tmp_path / "skr-watcher.tar",)


def test_cached_programs_are_not_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_no_go(_scratch: Path, _listener: Listener) -> str:
        raise SourceFailed("no Go")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(go_build, "find_go", find_no_go)
    with pytest.raises(SourceFailed, match="no Go"):
        find_programs()
    cache = tmp_path / "kyma-lifecycle-manager" / f"node-{KUBERNETES}"
    cache.mkdir()
    for name in PROGRAMS:
        (cache / name).touch(mode=stat.S_IRWXU)
    assert find_programs() == cache


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Linux is what is missing")
def test_message_lists_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NodesUnavailable, match=r"it lacks: root, Debian's packages .*containerd.* \(make node-tools\)"):
        require_nodes()


def test_elsewhere_linux_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(NodesUnavailable, match="it lacks: Linux"):
        require_nodes()
