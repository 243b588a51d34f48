"""What the product is measured by: kubectl, and Flux's package `ssa` where objects are deleted to be created anew."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from kube_runtime import dump_yaml
from kyma_local.kubectl import find_kubectl
from lifecycle_manager_api import names
from tests.go_programs import build
from tests.real_modules.comparison import KUBECTL

Document = Mapping[str, Any]
SERVER_SIDE = ("--server-side", "--force-conflicts")
FLUX = Path(__file__).parent / "flux"


@dataclass(frozen=True, eq=False)
class Kubectl:
    """kubectl on one cluster."""

    program: Path
    kubeconfig: Path
    cache: Path

    @classmethod
    async def on(cls, kubeconfig: Path, cache: Path) -> "Kubectl":
        return cls(await asyncio.to_thread(find_kubectl), kubeconfig, cache)

    async def apply(self, text: str) -> str:
        """Apply a text; return what kubectl could not do, empty where it did all."""
        return await self.run("apply", *SERVER_SIDE, f"--field-manager={KUBECTL}", "-f", "-", text=text)

    async def result_of(self, text: str, field_manager: str, namespace: str) -> Mapping[tuple[str, str, str], Document]:
        """Return what the objects of a text would be if a field manager applied it, by kind, namespace and name."""
        options = (*SERVER_SIDE, f"--field-manager={field_manager}", "--dry-run=server", "-o", "json", "-f", "-")
        there = await self._in(namespace)
        printed, errors = await there.printed("apply", *options, text=text)
        assert not errors, errors
        result = msgspec.json.decode(printed)
        found = result["items"] if result["kind"] == "List" else [result]
        named = ((each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]) for each in found)
        return dict(zip(named, found, strict=True))

    async def _in(self, namespace: str) -> "Kubectl":
        """Return kubectl with another namespace for objects that name none; by the option, none may name one."""
        own = self.cache.parent / f"{self.cache.name}.kubeconfig"
        own.write_bytes(self.kubeconfig.read_bytes())
        there = replace(self, kubeconfig=own)
        problem = await there.run("config", "set-context", "--current", f"--namespace={namespace}")
        assert not problem, problem
        return there

    async def run(self, *arguments: str, text: str = "") -> str:
        """Run a command; return the error."""
        return (await self.printed(*arguments, text=text))[1]

    async def printed(self, *arguments: str, text: str) -> tuple[bytes, str]:
        """Run a command; return what it printed, and the error."""
        process = await asyncio.create_subprocess_exec(
            self.program,
            f"--kubeconfig={self.kubeconfig}",
            f"--cache-dir={self.cache}",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        printed, errors = await process.communicate(text.encode())
        code = process.returncode
        return printed, (errors.decode() or f"exit code {code}") if code else ""


@dataclass(frozen=True, eq=False)
class Flux:
    """A running program of Flux's package."""

    process: asyncio.subprocess.Process

    async def apply(self, text: str, *, force: bool) -> str:
        """Apply a text; with force, what may not be changed is deleted and created anew. Return the error."""
        return await self._ask({"action": "apply", "text": text, "force": force})

    async def prune(self, text: str) -> str:
        """Delete the objects of a text. Return the error."""
        return await self._ask({"action": "prune", "text": text})

    async def _ask(self, request: Document) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(msgspec.json.encode(request) + b"\n")
        await self.process.stdin.drain()
        answer: dict[str, str] = msgspec.json.decode(await self.process.stdout.readline())
        return answer["error"]


@asynccontextmanager
async def running_flux(kubeconfig: Path, folder: Path) -> AsyncIterator[Flux]:
    """Build and run the program. The test is skipped where it can't be built."""
    program = await asyncio.to_thread(build, FLUX, folder / "flux-apply")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(program, kubeconfig, KUBECTL, stdin=pipe, stdout=pipe, limit=2**26)
    try:
        yield Flux(process)
    finally:
        process.terminate()
        await process.wait()


def for_kubectl(documents: Iterable[Document]) -> str:
    """Return a text for kubectl, without what only the product makes up for.

    - Nobody owns what a server makes of `stringData`: kubectl would never remove a key.
    - A server shows what version 1 of an autoscaler has no fields for as annotations, and removes these together with
      the last annotation of the applier. The product always has one, so kubectl gets one, too.
    """
    return "---\n".join(dump_yaml(_as_applied(each)) for each in documents)


def _as_applied(document: Document) -> Document:
    if document["kind"] == "HorizontalPodAutoscaler":
        metadata = document["metadata"]
        annotations = {**(metadata.get("annotations") or {}), names.DISCLAIMER: "as the product has it"}
        return {**document, "metadata": {**metadata, "annotations": annotations}}
    if document["kind"] != "Secret" or "stringData" not in document:
        return document
    texts = document["stringData"] or {}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in texts.items()}
    rest = {key: value for key, value in document.items() if key != "stringData"}
    return {**rest, "data": {**(document.get("data") or {}), **encoded}}
