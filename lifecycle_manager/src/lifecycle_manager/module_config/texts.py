"""The texts of Module CRs, within bounds.

Small ones come first; large ones become texts in another process, within the CPU budget of their cluster. What did not
change since it became a text is not decoded again.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import msgspec
from msgspec import structs

from kube_runtime import Clock, ResponseTooLarge, parse_aside
from kube_runtime.client.json_limits import check_json
from kube_runtime.one_by_one import OneByOne
from kube_runtime.resource import version_number
from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager.contract.verdict import POSTPONED
from lifecycle_manager.module_config.reading import MAX_KEPT_BYTES, Found, ModuleCr, Reading, Source
from lifecycle_manager.module_config.status import SyncedCondition, postponed, too_large, undecodable
from lifecycle_manager.module_config.text import MODULE_CR, Made, Task, make
from lifecycle_manager.module_config.text_process import TextProcess
from lifecycle_manager.skr.budget import CpuBudget
from lifecycle_manager_api import ModuleConfig, ResourceReference

MIB = 1024 * 1024
SMALL_BYTES, SMALL_NODES = 16 * 1024, 500
"""What becomes a text on the event loop: about 5 ms for the most that the values may be."""
TURN_NODES = 100
"""So many values become texts in one turn of the event loop: about 1 ms."""
RECALLED_NODES = 10
"""What it costs to recognize a small one, in values of one that becomes a text."""

READ_SECONDS_PER_MIB = 0.025
"""CPU seconds for reading large Module CRs, whatever becomes of them."""
MAX_REMEMBERED = 1000


class ContentDigest(NamedTuple):
    digest: bytes
    size: int

    @classmethod
    async def of(cls, content: Source) -> Self:
        """Return the digest of some bytes, made outside the event loop where it takes long."""
        is_small = len(content) <= SMALL_BYTES
        return cls(_digest(content) if is_small else await parse_aside(len(content), _digest, content), len(content))


class Remembered(msgspec.Struct, frozen=True):
    """What became of a Module CR with this digest: a text with its digest and size, or the problem with it.

    `uid` is that of the Module CR, `version` the newest that was read, and `source_size` that of its JSON.
    """

    source: bytes
    uid: str
    version: int
    text: bytes = b""
    size: int = 0
    problem: SyncedCondition | None = None
    source_size: int = 0


@dataclass(eq=False, slots=True)
class TextMemory:
    """What is remembered of one module: digests of texts, and the Module CRs that are to be read although nobody
    announced them: the budget postponed them, or their ModuleConfigs are gone.

    `has_more` tells whether Module CRs wait for room in the quota.
    """

    made: dict[ObjectReference, Remembered] = field(default_factory=dict)
    postponed: frozenset[ObjectReference] = frozenset()
    has_more: bool = False

    def recall(
        self,
        module_cr: ModuleCr,
        read: "ContentDigest",
        config: "tuple[str, ContentDigest] | None",
        remaining_bytes: int,
    ) -> ModuleCr | None:
        """Return the Module CR as it was read before; None where its text has to be made (again).

        The text itself is that of its ModuleConfig, or none where it would exceed the quota.
        """
        made = self.made.get(module_cr.source)
        if made is None or made.source != read.digest:
            return None
        if made.problem is not None:
            return replace(module_cr, problem=made.problem)
        if config is not None and made.text == config[1].digest:
            return replace(module_cr, text=config[0])
        present = config[1].size if config is not None else 0
        return replace(module_cr, exceeds_quota=True) if made.size > remaining_bytes + present else None

    def note(
        self, module_cr: ModuleCr, content: "ContentDigest", text: "ContentDigest | None", *, complete: bool
    ) -> None:
        """Remember what became of a Module CR. In a complete reading it is the newest, also after a restore."""
        known, read = self.made.get(module_cr.source), module_cr.reference
        if known is None and len(self.made) >= MAX_REMEMBERED:
            return
        version = version_number(read.resource_version)
        if known is not None and known.uid == read.uid and not complete:
            version = max(version, known.version)
        problem, made = module_cr.problem, Remembered(content.digest, read.uid, version, source_size=content.size)
        if text is not None:
            self.made[module_cr.source] = structs.replace(made, text=text.digest, size=text.size)
        elif problem is not None and problem.reason != POSTPONED:
            self.made[module_cr.source] = structs.replace(made, problem=problem)

    def cost_of(self, source: ObjectReference) -> float:
        """Return the CPU seconds for reading a Module CR, by its size when it was read last."""
        made = self.made.get(source)
        return read_seconds(made.source_size if made is not None else MIB if source in self.postponed else 0)

    @property
    def cost_of_all(self) -> float:
        return sum(map(self.cost_of, self.made))

    def differing(self, configs: Iterable[ModuleConfig]) -> frozenset[ObjectReference] | None:
        """Return the Module CRs whose ModuleConfigs are gone; None where others may differ, too."""
        found = [config.spec.resource_ref for config in configs]
        if self.has_more or len(self.made) >= MAX_REMEMBERED or not all(map(self._explains, found)):
            return None
        return frozenset(self.made).difference(ObjectReference.to(each) for each in found if each is not None)

    def _explains(self, reference: ResourceReference | None) -> bool:
        """Tell whether a ModuleConfig with this reference is of a Module CR that was read, or of an older version."""
        made = self.made.get(ObjectReference.to(reference)) if reference is not None else None
        if made is None or reference is None:
            return False
        return made.uid == reference.uid and version_number(reference.resource_version) <= made.version

    def is_superseded(self, read: ModuleCr) -> bool:
        """Tell whether a later version of a Module CR was read before."""
        known = self.made.get(read.source)
        return (
            known is not None
            and known.uid == read.reference.uid
            and 0 < version_number(read.reference.resource_version) < known.version
        )

    def forget(self, gone: Iterable[ObjectReference]) -> None:
        for reference in gone:
            self.made.pop(reference, None)

    def keep(self, accepted: Collection[ObjectReference], *, has_more: bool) -> None:
        """Forget all others."""
        self.made = {reference: made for reference, made in self.made.items() if reference in accepted}
        self.has_more = has_more


@dataclass(eq=False, kw_only=True)
class TextMaker:
    """Makes the texts of one reading. `postponed` are those that it left for later."""

    process: TextProcess
    memory: TextMemory
    budget: CpuBudget
    clock: Clock
    turns: OneByOne = field(default_factory=OneByOne)
    postponed: set[ObjectReference] = field(default_factory=set)
    _nodes: int = 0
    _is_busy: bool = False

    async def with_texts(
        self,
        found: Found,
        accepted: Collection[ObjectReference],
        configs: Mapping[ObjectReference, ModuleConfig],
        remaining_bytes: int = MAX_KEPT_BYTES,
    ) -> Reading:
        """Return the reading with the text of each accepted Module CR, the smallest first.

        `configs` are their ModuleConfigs, and `remaining_bytes` how many more bytes those of the module may have.
        """
        read = dict(found.module_crs)
        for reference, module_cr in found.module_crs.items():
            if module_cr is not None and module_cr.is_unread and reference not in found.sources:
                why = f"the Module CRs of the cluster have more than {MAX_KEPT_BYTES} bytes"
                read[reference] = replace(module_cr, problem=too_large(reference, why))
        for reference, source in sorted(found.sources.items(), key=lambda each: len(each[1])):
            module_cr = read[reference]
            if module_cr is not None and not module_cr.is_deleting and reference in accepted:
                config = configs.get(reference)
                present = config.spec.resource if config is not None else None
                content = await ContentDigest.of(source)
                made = await self._made(module_cr, source, content, present, remaining_bytes)
                text = await ContentDigest.of(made.text.encode()) if made.text is not None else None
                if not self.memory.cost_of(reference):  # a known one is charged before it is requested
                    self.budget.charge(read_seconds(content.size), self.clock.monotonic())
                self.memory.note(made, content, text, complete=found.complete)
                read[reference] = made
        gone = [reference for reference, each in read.items() if each is None or each.is_deleting]
        self.memory.forget(gone)
        self.memory.postponed = frozenset(self.postponed)
        if found.complete:
            existing = [each for each in read.values() if each is not None and not each.is_deleting]
            has_more = any(each.exceeds_quota or each.source not in accepted for each in existing)
            self.memory.keep(accepted, has_more=has_more)
        return Reading(found.default, read, found.complete, found.served)

    async def _made(
        self, module_cr: ModuleCr, source: Source, content: ContentDigest, config_text: str | None, remaining_bytes: int
    ) -> ModuleCr:
        config = (config_text, await ContentDigest.of(config_text.encode())) if config_text is not None else None
        known = self.memory.recall(module_cr, content, config, remaining_bytes)
        if known is not None:
            await self._turn(RECALLED_NODES)
            return known
        task = Task(module_cr.reference.api_version, module_cr.reference.kind, bytes(source))  # one at a time
        if content.size > SMALL_BYTES:
            return await self._made_aside(module_cr, task)
        try:
            nodes = check_json(task.raw, MODULE_CR)
        except ResponseTooLarge as error:
            return replace(module_cr, problem=too_large(module_cr.source, str(error)))
        if nodes > SMALL_NODES:
            return await self._made_aside(module_cr, task)
        await self._turn(nodes)
        return _with_result(module_cr, make(task))

    async def _turn(self, nodes: int) -> None:
        """Let others have the event loop after so many values."""
        if self._nodes and self._nodes + nodes > TURN_NODES:
            self._nodes = 0
            await self.turns.turn()
        self._nodes += nodes

    async def _made_aside(self, module_cr: ModuleCr, task: Task) -> ModuleCr:
        if self.budget.wait(self.clock.monotonic()) > 0:
            self.postponed.add(module_cr.source)
            return replace(module_cr, problem=postponed(module_cr.source))
        made = None if self._is_busy else await self.process.make(task)
        self._is_busy = made is None
        result = module_cr
        if made is not None:
            self.budget.charge(made.seconds, self.clock.monotonic())
            result = _with_result(module_cr, made)
        if result.is_unread:
            self.postponed.add(module_cr.source)
        return result


def read_seconds(size: int) -> float:
    """Return the CPU seconds for reading a Module CR of so many bytes, as far as they count."""
    return READ_SECONDS_PER_MIB * size / MIB if size > SMALL_BYTES else 0.0


def _with_result(module_cr: ModuleCr, made: Made) -> ModuleCr:
    """Return the Module CR with its text, or the reason why it has none."""
    if made.text is not None:
        return replace(module_cr, text=made.text)
    if made.too_large:
        return replace(module_cr, problem=too_large(module_cr.source, made.too_large))
    if made.undecodable:
        return replace(module_cr, problem=undecodable(module_cr.source, made.undecodable))
    return module_cr


def _digest(content: Source) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()
