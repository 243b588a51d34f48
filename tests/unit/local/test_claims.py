"""A folder belongs to one process at a time, as long as the process runs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kyma_local.claims import CLAIM, FolderInUse, claimed, first_unclaimed, holder, scratch_folder

CLAIM_AND_WAIT = """
import sys, time
from pathlib import Path
from kyma_local.claims import claimed
with claimed(Path(sys.argv[1])):
    print("claimed", flush=True)
    time.sleep(600)
"""


def test_claim_has_the_process_id_and_ends_with_the_block(tmp_path: Path) -> None:
    assert holder(tmp_path) is None
    with claimed(tmp_path / "new") as folder:
        assert holder(folder) == os.getpid()
    assert holder(folder) is None


def test_second_claim_is_refused_with_the_process_id_and_a_solution(tmp_path: Path) -> None:
    with (
        claimed(tmp_path),
        pytest.raises(FolderInUse, match=rf"in use by process {os.getpid()}; choose another folder"),
        claimed(tmp_path),
    ):
        pytest.fail("claimed twice")


def test_next_free_number_is_claimed(tmp_path: Path) -> None:
    base = tmp_path / "demo"
    with first_unclaimed(base) as first, first_unclaimed(base) as second, first_unclaimed(base) as third:
        assert [each.name for each in (first, second, third)] == ["demo", "demo-2", "demo-3"]


def test_claim_ends_when_its_process_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CLAIM_AND_WAIT, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "claimed\n"
        assert holder(tmp_path) == process.pid
        process.send_signal(signal.SIGKILL)
    assert holder(tmp_path) is None


def test_ending_claim_has_no_process_id(tmp_path: Path) -> None:
    with claimed(tmp_path):
        (tmp_path / CLAIM).write_text("")
        assert holder(tmp_path) is None


def test_scratch_folder_of_a_killed_process_is_deleted_and_no_other(tmp_path: Path) -> None:
    killed, foreign, starting = (tmp_path / f"klm-{name}" for name in ("killed", "foreign", "starting"))
    for folder in (killed, tmp_path / "other"):
        with subprocess.Popen([sys.executable, "-c", CLAIM_AND_WAIT, str(folder)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline()
            process.kill()
    foreign.mkdir()
    starting.mkdir()
    (starting / CLAIM).touch()
    (tmp_path / "klm-link").symlink_to(tmp_path / "other")
    with scratch_folder("klm-", tmp_path) as first, scratch_folder("klm-", tmp_path) as second:
        assert first.is_dir()
        assert second.is_dir()
        assert not killed.exists()
    kept = {"klm-foreign", "klm-starting", "klm-link", "other"}
    assert {each.name for each in tmp_path.iterdir()} == kept
