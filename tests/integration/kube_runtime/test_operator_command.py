"""The operator with children of the README, run by `kube-runtime run` as a user would."""

import asyncio
import re
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import msgspec

from kube_runtime import Applier, Client, NotFound, Resource, parse_objects
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually

EXAMPLES = re.findall(r"```python\n(.*?)```", Path("kube_runtime/README.md").read_text(), re.DOTALL)
COMMAND = Path(sys.executable).with_name("kube-runtime")
PAGES = Resource.dynamic("pages.example.com", "v1", "Page", "pages", namespaced=True)


async def test_operator_of_the_readme_repairs_a_deleted_child(
    client: Client, kcp: Path, namespace: str, tmp_path: Path
) -> None:
    file = tmp_path / "operator.py"
    (example,) = (each for each in EXAMPLES if "@operator.reconciles" in each)
    file.write_text(example)
    assert len([line for line in example.splitlines() if line]) <= 25
    crds = await asyncio.to_thread(_crds_of, file)
    (await Applier(client, field_manager="test").apply(parse_objects(crds), (), prune=False)).raise_first_failure()
    options = ("--kubeconfig", str(kcp), "--namespace", namespace, "--lease-namespace", namespace)
    process = await asyncio.create_subprocess_exec(COMMAND, "run", file, *options, stderr=PIPE)
    try:
        await client.create(PAGES, {"metadata": {"name": "one"}, "spec": {"text": "hi"}}, namespace, field_manager="me")
        first = await _child(client, namespace, text="hi", unlike="")
        await client.delete(CONFIG_MAPS, "one", namespace)
        second = await _child(client, namespace, text="hi", unlike=first)
        await client.merge_patch(PAGES, "one", {"spec": {"text": "bye"}}, namespace)
        assert await _child(client, namespace, text="bye", unlike=first) == second

        process.send_signal(signal.SIGTERM)
        _, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()

    assert process.returncode == 0, errors.decode()
    lines = [msgspec.json.decode(line) for line in errors.splitlines()]
    assert "started" in [line["msg"] for line in lines]


def _crds_of(file: Path) -> str:
    return subprocess.run([COMMAND, "crds", file], check=True, capture_output=True, text=True).stdout


async def _child(client: Client, namespace: str, *, text: str, unlike: str) -> str:
    """Return the uid of the child once it has a text and is another one."""
    found = ""

    async def there() -> bool:
        nonlocal found
        try:
            child = await client.get(CONFIG_MAPS, "one", namespace)
        except NotFound:
            return False
        (owner,) = child["metadata"]["ownerReferences"]
        found = child["metadata"]["uid"]
        return (found != unlike, child["data"], owner["kind"]) == (True, {"index.html": text}, "Page")

    await eventually(there)
    return found
