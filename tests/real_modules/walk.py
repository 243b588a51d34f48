"""One walk: the same happens to two clusters, to one by kubectl, to the other by the product."""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from kube_runtime import ApiError, Client, KindUnknown, KubeError, NotFound, NotServed, ObjectKey
from kube_runtime.metrics import RuntimeMetrics
from lifecycle_manager.contract.signals import ReadScope
from lifecycle_manager_api import find, names
from tests.kinds import NAMESPACES
from tests.manifest_clusters import Modules
from tests.modules import as_text
from tests.real_modules import steps
from tests.real_modules.comparison import Document, compared
from tests.real_modules.definitions import group_of
from tests.real_modules.oracle import Flux, Kubectl, for_kubectl
from tests.real_modules.steps import Edit, Key, Manifest
from tests.waiting import eventually

MAX_ROUNDS = 6


class Difference(AssertionError):
    """The clusters differ, or the product writes without a reason."""


@dataclass
class Count:
    """What walks have done."""

    steps: int = 0
    refused: int = 0
    healed: int = 0
    forced: int = 0


@dataclass(eq=False)
class Pair:
    """Two clusters: one that kubectl applies to, and one that the product installs the same module in."""

    theirs: Client
    kubectl: Kubectl
    modules: Modules
    metrics: RuntimeMetrics
    flux: Flux | None = None
    report: Callable[[str], None] = lambda _: None
    count: Count = field(default_factory=Count)

    @property
    def ours(self) -> Client:
        return self.modules.skr

    @property
    def writes(self) -> int:
        requests = self.metrics._requests.items()  # noqa: SLF001 - by method, which nothing else shows without a registry
        return sum(count for (_, method, _), count in requests if method != "GET")


@dataclass(eq=False)
class Walk:
    """A walk with a seed."""

    pair: Pair
    seed: int
    prefix: str = "w"
    """What the names of its objects begin with: a walk may be repeated in the same clusters with another one."""
    draw: random.Random = field(init=False)
    manifest: Manifest = field(init=False)
    applied: dict[Key, Document] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)  # noqa: S311 - repeatable, and no secret
        self.manifest = Manifest.first(self.draw, f"{self.prefix}{self.seed}", self.draw.randint(8, 20))

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(names.KCP_NAMESPACE, f"demo-{self.manifest.prefix}")

    async def run(self, length: int) -> None:
        """Take steps, then remove the module, and check that nothing is left. Raises Difference."""
        for client in (self.pair.theirs, self.pair.ours):
            await client.create(NAMESPACES, {"metadata": {"name": self.manifest.namespaces[1]}}, field_manager="test")
        await self.bring("the manifest is installed")
        for _ in range(length):
            before = self.manifest.copied()
            what = self.draw.choice(steps.MANIFEST_STEPS)(self.draw, self.manifest)
            edits = [each for each in steps.edits_of(self.draw, before) if self._is_comparable(each)]
            if self.draw.random() < 0.3:
                edits += steps.injections(before)
            for each in edits:
                await self.edit(each)
            if self.draw.random() < 0.15:
                await self.pair.modules.restart()
                what += "; the process restarts"
            if not await self.bring("; ".join([what, *map(str, edits)])):
                self.manifest = before
                await self.bring("the manifest is as it was")
        await self.end()

    async def bring(self, what: str) -> bool:
        """Have the manifest applied in both clusters, and compare; return whether it could be."""
        pair = self.pair
        pair.count.steps += 1
        documents = [*self.manifest.documents.values()]
        pair.report(f"{self.seed}/{pair.count.steps}: {what}")
        problem = await self._by_kubectl(documents)
        failure = await self._by_product(documents)
        if problem and failure:
            pair.count.refused += 1
            pair.report(f"  refused: {problem.strip()[-300:]}\n  here: {failure[-300:]}")
            return False
        if failure:
            raise Difference(f"{what}: applied by kubectl, and refused here: {failure}")
        found = await self._compared()
        if problem:
            await self._healed(what, problem, found)
        elif found:
            raise Difference("\n".join([what, *found]))
        await self._rests(what)
        return True

    def _is_comparable(self, edit: Edit) -> bool:
        """Tell whether an edit leaves no object that leaves the manifest without its owner.

        Such an object is somebody else's for the product, and stays.
        """
        metadata = (edit.patch or {}).get("metadata", {})
        return edit.key in self.manifest.documents or None not in metadata.values()

    async def edit(self, edit: Edit) -> None:
        """Have somebody write to both clusters. Raises Difference where only one of them refuses it."""
        refusals = [await self._edit(client, edit) for client in (self.pair.theirs, self.pair.ours)]
        if refusals[0] != refusals[1]:
            raise Difference(
                f"{edit}: {refusals[0] or 'accepted'} where kubectl applied, {refusals[1] or 'accepted'} here"
            )

    async def end(self) -> None:
        """Remove the module, and check that nothing is left."""
        pair = self.pair
        await pair.modules.delete(key=self.key)
        await pair.modules.reconcile_until_gone(self.key)
        left = [key for key in self.applied if key[0] != "Namespace" and await self._live(pair.ours, key) is not None]
        if left:
            raise Difference(f"left after removal: {left}")
        for document in reversed(self.applied.values()):
            await self._delete(pair.theirs, document)
        for client in (pair.theirs, pair.ours):
            await client.delete(NAMESPACES, self.manifest.namespaces[1])

    async def _by_kubectl(self, documents: list[Document]) -> str:
        """Apply by kubectl until it has nothing to do: its first apply may remove an emptied list, its second not."""
        pair = self.pair
        first = [each for each in documents if each["kind"] in steps.STAYING]
        problem = ""
        if any(steps.key_of(each) not in self.applied for each in first):
            problem = await pair.kubectl.apply(for_kubectl(first))
            crd = f"crd/things.{group_of(self.manifest.prefix)}"
            await pair.kubectl.run("wait", "--for=condition=Established", "--timeout=60s", crd)
        problem += await pair.kubectl.apply(for_kubectl(documents))
        problem += await pair.kubectl.apply(for_kubectl(documents)) if not problem else ""
        if problem:
            return problem
        wanted = {steps.key_of(each) for each in documents}
        for key, document in [*self.applied.items()]:
            if key not in wanted:
                await self._delete(pair.theirs, document)
        return ""

    async def _by_product(self, documents: list[Document]) -> str:
        modules = self.pair.modules
        await modules.want_text(as_text(documents), self.key)
        failure = ""
        await eventually(self._has_source, within=60, what="the text is read")
        for _ in range(MAX_ROUNDS):
            before, failure = self.pair.writes, ""
            try:
                await modules.reconcile(self.key, ReadScope.EVERYTHING)
            except (ApiError, KubeError) as error:
                failure = str(error)
            if not failure and self.pair.writes == before:
                break
        self.applied = {**self.applied, **{steps.key_of(each): each for each in documents}}
        return failure and f"{failure}; {(await modules.condition(key=self.key)).message}"

    async def _has_source(self) -> bool:
        """Reconcile until the text of the manifest is read, which takes its time."""
        with suppress(KubeError):
            await self.pair.modules.reconcile(self.key, ReadScope.EVERYTHING)
        manifest = await self.pair.modules.manifest(self.key)
        read = find(manifest.status.conditions, "Resources") if manifest is not None else None
        return read is None or read.status != "Unknown"

    async def _compared(self) -> list[str]:
        found = []
        for key in self.applied:
            theirs, ours = await self._live(self.pair.theirs, key), await self._live(self.pair.ours, key)
            if theirs is None or ours is None:
                if theirs is not ours:
                    where = "where kubectl applied" if ours is None else "here"
                    found.append(f"{key} exists only {where}")
                continue
            found += [f"{key}{each}" for each in compared(theirs, ours)]
        if not found:
            self.applied = {key: self.manifest.documents[key] for key in self.manifest.documents}
        return found

    async def _healed(self, what: str, problem: str, found: list[str]) -> None:
        """Have what kubectl could not bring, and the product could, deleted by somebody; then both have to agree."""
        pair = self.pair
        pair.count.healed += 1
        pair.report(f"  healed: {problem.strip()[-300:]}")
        text = for_kubectl(self.manifest.documents.values())
        if pair.flux is not None and not await pair.flux.apply(text, force=True):
            pair.count.forced += 1
        keys = [key for key in self.manifest.documents if any(each.startswith(str(key)) for each in found)]
        for key in keys:
            document = self.manifest.documents[key]
            for client in (pair.theirs, pair.ours):
                await self._delete(client, document)
        documents = [*self.manifest.documents.values()]
        again = await self._by_kubectl(documents)
        failure = await self._by_product(documents)
        if again or failure or (found := await self._compared()):
            raise Difference("\n".join([what, f"kubectl, and again: {again}", f"product: {failure}", *found]))

    async def _rests(self, what: str) -> None:
        """Check that another reconcile that reads all writes nothing."""
        before = self.pair.writes
        await self.pair.modules.reconcile(self.key, ReadScope.EVERYTHING)
        if self.pair.writes != before:
            raise Difference(f"{what}: written again without a reason")

    async def _edit(self, client: Client, edit: Edit) -> str:
        resource = await client.mapper.resource(edit.api_version, edit.key[0])
        name, namespace = edit.key[2], edit.key[1] or None
        try:
            if edit.patch is None:
                await client.delete(resource, name, namespace)
            else:
                await client.merge_patch(
                    resource,
                    name,
                    edit.patch,
                    namespace,
                    field_manager=edit.manager,
                    subresource=edit.subresource or None,
                )
        except KubeError as error:
            return type(error).__name__
        return ""

    async def _live(self, client: Client, key: Key) -> Document | None:
        document = self.applied.get(key) or self.manifest.documents[key]
        with suppress(NotFound, KindUnknown, NotServed):
            resource = await client.mapper.resource(document["apiVersion"], key[0])
            found: Document = msgspec.to_builtins(await client.get(resource, key[2], key[1] or None))
            return found
        return None

    async def _delete(self, client: Client, document: Document) -> None:
        kind, namespace, name = steps.key_of(document)
        with suppress(NotFound, KindUnknown, NotServed):
            await client.delete(await client.mapper.resource(document["apiVersion"], kind), name, namespace or None)
