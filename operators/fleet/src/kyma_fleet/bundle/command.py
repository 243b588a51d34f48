"""Reads what support needs, page by page, and writes it without secrets into a file that is bounded in size."""

import os
import tarfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from kube_runtime import Client, KubeError, Resource
from kube_runtime.event_recorder import EVENTS
from kube_runtime.leases.lease import LEASES
from kyma_fleet.bundle.kept import kept_of
from kyma_fleet.bundle.words import Words
from kyma_fleet.checking.command import DEPLOYMENTS, OUR_DEPLOYMENTS, check, print_version
from kyma_fleet.control_plane import require_control_plane
from kyma_fleet.documents import Document, Part, as_json, as_yaml, print_document, raw
from kyma_fleet.explanation.command import explain
from kyma_fleet.explanation.reading import Rules
from kyma_fleet.problems import Problem
from kyma_fleet.screen import LiveTable, Screen
from kyma_fleet.status import status
from kyma_fleet.text import plain
from lifecycle_manager.contract.resources import (
    KYMAS,
    MANIFESTS,
    MODULE_CONFIGS,
    MODULE_POLICIES,
    MODULE_RELEASE_METAS,
    MODULE_ROLLOUTS,
    MODULE_TEMPLATES,
    ROLLOUT_STRATEGIES,
    SYNC_RESOURCES,
    WATCHERS,
)
from lifecycle_manager_api import names

KCP = names.KCP_NAMESPACE
PODS: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "Pod", "pods", namespaced=True)
OF_A_KYMA: tuple[Resource[Any], ...] = (MANIFESTS, MODULE_CONFIGS, SYNC_RESOURCES)
OF_ALL: tuple[Resource[Any], ...] = (
    MODULE_TEMPLATES,
    MODULE_RELEASE_METAS,
    MODULE_ROLLOUTS,
    ROLLOUT_STRATEGIES,
    MODULE_POLICIES,
    WATCHERS,
    EVENTS,
)
MAX_BYTES_OF_A_KIND = 8 * 1024 * 1024
MAX_LOG_BYTES = 2 * 1024 * 1024


class BundledFile(Part, frozen=True):
    """One file of the archive. `cut`: not all of it is there."""

    name: str
    size: int
    cut: bool = False


class Missing(Part, frozen=True):
    """What is not in the archive, and why."""

    what: str
    why: str


class BundleReport(Document, frozen=True):
    """What is in a support archive, and what is not; it is also the file index.json there."""

    file: str
    written_at: datetime
    files: tuple[BundledFile, ...]
    missing: tuple[Missing, ...]

    def print_table(self, screen: Screen) -> None:
        """Print it for people."""
        rows = ((each.name, f"{each.size:,}", "cut" if each.cut else "") for each in self.files)
        LiveTable(screen, ("FILE", "BYTES", "")).print(rows)
        for each in self.missing:
            screen.print(f"missing: {plain(each.what)}: {plain(each.why)}")
        screen.print(f"\n{plain(self.file)} is written; read it before you pass it on")

    def names(self) -> Iterator[str]:
        """Return the files."""
        return (f"file/{each.name}" for each in self.files)


@dataclass(eq=False)
class BundleArchive:
    """What was written so far; `room` is how many bytes may follow, before compression."""

    _tar: tarfile.TarFile
    room: int
    files: list[BundledFile] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)

    def add(self, name: str, text: str) -> None:
        """Write a file, or as much of it as there is room for."""
        content = text.encode("utf-8", "replace")
        kept = content[: max(self.room, 0)]
        self.room -= len(kept)
        self.write(name, kept)
        self.files.append(BundledFile(name, len(kept), cut=len(kept) < len(content)))

    def write(self, name: str, content: bytes) -> None:
        """Write a file whatever its size."""
        entry = tarfile.TarInfo(f"klm-bundle/{name}")
        entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o600
        self._tar.addfile(entry, BytesIO(content))


@contextmanager
def new_archive(file: Path, max_bytes: int) -> Iterator[BundleArchive]:
    """Yield an archive in a new file, of which nothing is left where not all is written. Raises Problem."""
    try:
        number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise Problem(f"can't write {file}: {error.strerror}; choose another with --file") from None
    with ExitStack() as failed:
        failed.callback(file.unlink, missing_ok=True)
        with os.fdopen(number, "wb") as stream, tarfile.open(fileobj=stream, mode="w:gz") as tar:
            yield BundleArchive(tar, max_bytes)
        failed.pop_all()


async def bundle(kcp: Client, screen: Screen, file: Path, *, kyma: str, max_bytes: int, lease_namespace: str) -> int:
    """Write a support archive of a control plane, or of one Kyma with its parts."""
    await require_control_plane(kcp)
    if kyma:
        await kcp.get(KYMAS, kyma, KCP)
    with new_archive(file, max_bytes) as archive:
        words = Words()
        of_kyma = f"{names.KYMA_NAME}={kyma}" if kyma else None
        await _add(archive, words, kcp, KYMAS, KCP, field_selector=f"metadata.name={kyma}" if kyma else None)
        for kind in OF_A_KYMA:
            await _add(archive, words, kcp, kind, KCP if kind is MANIFESTS else None, label_selector=of_kyma)
        for kind in OF_ALL:
            await _add(archive, words, kcp, kind, KCP)
        await _add(archive, words, kcp, LEASES, lease_namespace)
        await _add(archive, words, kcp, DEPLOYMENTS, KCP, label_selector=OUR_DEPLOYMENTS)
        for pod in await _add(archive, words, kcp, PODS, KCP, label_selector=OUR_DEPLOYMENTS):
            await _add_pod(archive, words, kcp, pod)
        reports = {
            "version": lambda to: print_version(kcp, to),
            "check": lambda to: check(kcp, to, lease_namespace, before_installation=False),
            "status": lambda to: status(kcp, to, lease_namespace, watch=False),
        }
        if kyma:
            reports["explain"] = lambda to: explain(kcp, to, kyma, "", Rules())
        for name, report in reports.items():
            await _add_report(archive, words, name, report)
        found = BundleReport(
            file=str(file),
            written_at=datetime.now(UTC),
            files=tuple(archive.files),
            missing=tuple(archive.missing),
        )
        archive.write("index.json", as_json(found, indent=2).encode())
    print_document(found, screen)
    return 0


async def _add_report(
    archive: BundleArchive, words: Words, name: str, report: Callable[[Screen], Awaitable[int]]
) -> None:
    """Write what a command prints as JSON."""
    text = StringIO()
    try:
        await report(Screen(stream=text, form="json"))
    except (KubeError, Problem) as error:
        archive.missing.append(Missing(f"klm {name}", words.kept(str(error))))
    else:
        archive.add(f"{name}.json", as_json(words.kept_value(msgspec.json.decode(text.getvalue())), indent=2))


async def _add(
    archive: BundleArchive,
    words: Words,
    kcp: Client,
    resource: Resource[Any],
    namespace: str | None,
    *,
    label_selector: str | None = None,
    field_selector: str | None = None,
) -> list[dict[str, Any]]:
    """Write the objects of a kind; return what is kept of them."""
    pages = kcp.pages(raw(resource), namespace, label_selector=label_selector, field_selector=field_selector)
    found: list[dict[str, Any]] = []
    text = StringIO()
    try:
        async for each in (item async for page in pages for item in page.items):
            if text.tell() > min(MAX_BYTES_OF_A_KIND, archive.room):
                archive.missing.append(Missing(f"further {resource.plural}", "the archive is bounded; see --max-size"))
                break
            kept = kept_of({"apiVersion": resource.api_version, "kind": resource.kind, **each}, words)
            found.append(kept)
            text.write(f"---\n{as_yaml(kept)}")
    except KubeError as error:
        archive.missing.append(Missing(resource.plural, words.kept(str(error))))
    if found:
        archive.add(f"resources/{resource.plural}.yaml", text.getvalue())
    return found


async def _add_pod(archive: BundleArchive, words: Words, kcp: Client, pod: dict[str, Any]) -> None:
    """Write the log of each container of a Pod, and what it measures."""
    name = pod["metadata"]["name"]
    path = f"/api/v1/namespaces/{KCP}/pods/{quote(name, safe='')}"
    targets = {}
    for container in pod["spec"]["containers"]:
        query = f"container={quote(container['name'], safe='')}&limitBytes={MAX_LOG_BYTES}&tailLines=5000"
        targets[f"logs/{name}-{container['name']}.log"] = f"{path}/log?{query}"
        for port in container.get("ports") or ():
            if "metrics" in port.get("name", ""):
                targets[f"metrics/{name}.txt"] = f"{path}:{port['containerPort']}/proxy/metrics"
    for file, target in targets.items():
        try:
            content = await kcp.raw("GET", target, accept="*/*")
        except KubeError as error:
            archive.missing.append(Missing(file, words.kept(str(error))))
        else:
            kept = words.kept_metrics if file.startswith("metrics/") else words.kept
            archive.add(file, kept(content.decode("utf-8", "replace")))
