"""The tutorial, as its reader would follow it: the operator on a real API server, then its tests."""

import asyncio
import re
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from kube_runtime import Applier, Client, NotFound, NotServed, Resource, parse_objects
from tests.kinds import EVENTS
from tests.waiting import eventually, is_gone

*OPERATOR, TESTS = re.findall(r"```python\n(.*?)```", Path("docs/tutorial.md").read_text(), re.DOTALL)
COMMAND = Path(sys.executable).with_name("kube-runtime")
SCRATCHES = Resource.dynamic("scratch.example.com", "v1", "Scratch", "scratches", namespaced=True)
CLAIMS = Resource.dynamic("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "scratch.py").write_text("\n\n".join(OPERATOR))
    (tmp_path / "test_scratch.py").write_text(TESTS)
    return tmp_path


async def test_operator_of_the_tutorial(client: Client, kcp: Path, namespace: str, folder: Path) -> None:
    crds = await asyncio.to_thread(_crds_of, folder / "scratch.py")
    (await Applier(client, field_manager="test").apply(parse_objects(crds), (), prune=False)).raise_first_failure()
    options = ("--kubeconfig", kcp, "--namespace", namespace, "--shards", "--lease-namespace", namespace)
    process = await asyncio.create_subprocess_exec(COMMAND, "run", folder / "scratch.py", *options, stderr=PIPE)

    async def claim(unlike: str = "", **labels: str) -> Any:
        try:
            found = await client.get(CLAIMS, "one", namespace)
        except (NotFound, NotServed):
            return None
        metadata = found["metadata"]
        return found if metadata["uid"] != unlike and metadata.get("labels", {}) == labels else None

    async def recorded(reason: str) -> bool:
        return any(each["reason"] == reason for each in (await client.list(EVENTS, namespace)).items)

    try:
        document = {"metadata": {"name": "one"}, "spec": {"size": "1Gi"}}
        await client.create(SCRATCHES, document, namespace, field_manager="user")
        first = await eventually(claim)
        assert first["spec"]["resources"]["requests"] == {"storage": "1Gi"}
        await client.merge_patch(CLAIMS, "one", {"metadata": {"finalizers": None}}, namespace)
        await client.delete(CLAIMS, "one", namespace)
        await eventually(lambda: claim(first["metadata"]["uid"]))
        await client.merge_patch(SCRATCHES, "one", {"metadata": {"labels": {"team": "blue"}}}, namespace)
        await eventually(lambda: claim(team="blue"))
        await client.merge_patch(SCRATCHES, "one", {"spec": {"size": "2Gi"}}, namespace)
        await eventually(lambda: recorded("Refused"))
        await client.merge_patch(SCRATCHES, "one", {"spec": {"size": "1Gi", "minutes": 0}}, namespace)
        await eventually(lambda: is_gone(client.get(SCRATCHES, "one", namespace)))
        await eventually(lambda: recorded("Released"))
        process.send_signal(signal.SIGTERM)
        _, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, errors.decode()


def _crds_of(file: Path) -> str:
    return subprocess.run([COMMAND, "crds", file], check=True, capture_output=True, text=True).stdout


def test_tests_of_the_tutorial(folder: Path) -> None:
    options = ("-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "-W", "error")
    fixtures = ("-o", "asyncio_default_fixture_loop_scope=function", "--rootdir", folder)
    run = [sys.executable, "-m", "pytest", *options, *map(str, (*fixtures, folder))]
    done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=folder, timeout=240)
    assert (done.returncode, done.stdout[:2]) == (0, ". "), done.stdout + done.stderr
