"""Measures what 1 MiB of ModuleConfig text costs, and how long ten such texts hold an event loop.

One text has many small values, the other one long descriptions, as a CRD has. The peer is PyYAML's C dumper and loader,
in this process and in turns; it checks neither duplicate keys nor the cost of aliases. For the turns of the loop, ten
Module CRs become texts as Lifecycle Manager makes them, and then objects as a Module Manager reads them, all at once.
"""

import asyncio
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import yaml

from benchmarks.figures import Figure
from kube_runtime import SYSTEM_CLOCK, dump_yaml, load_yaml
from kyma_module_manager import ModuleContext, ModuleManager
from kyma_module_manager.rendering import render
from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager.module_config.reading import Found, ModuleCr
from lifecycle_manager.module_config.text_process import TextProcess
from lifecycle_manager.module_config.texts import TextMaker, TextMemory
from lifecycle_manager.skr.budget import CpuBudget
from lifecycle_manager_api import ModuleConfig, ModuleConfigSpec, ObjectMeta, ResourceReference

MIB = 1024 * 1024
ROUNDS = 5
TEXTS = 10
BAR_MS = 100.0
BAR_TURN_MS = 20.0
WORDS = (
    "a field that",
    "selects: the",
    "object's name",
    "'quoted' where",
    "it is needed",
    'and "applied"',
    "once it is set",
)
GROUP, VERSION, KIND = "example.com", "example.com/v1", "Thing"


def main() -> int:
    """Measure and print the figures; return 1 if a bar was missed."""
    met = []
    for name, document in (("many_small_values", many_small_values()), ("long_descriptions", long_descriptions())):
        text = dump_yaml(document)
        assert 0.8 * MIB < len(msgspec.json.encode(text)) < MIB
        write, write_as_peer = partial(dump_yaml, document, max_bytes=MIB), partial(_dump, document)
        read, read_as_peer = partial(load_yaml, text), partial(_load, text)
        met.append(_report(f"{name}_written", write, write_as_peer, len(text)))
        met.append(_report(f"{name}_read", read, read_as_peer, len(text)))
    met.append(asyncio.run(_turns()))
    return 0 if all(met) else 1


def many_small_values() -> dict[str, Any]:
    """Return a Module CR of about as many values as one may have, most of them short."""
    groups = [
        {
            "name": f"group-{group}",
            "enabled": group % 2 == 0,
            "rules": {f"rule-{rule:02}": f"value {group} {rule}" if rule % 3 else group * rule for rule in range(20)},
        }
        for group in range(1_800)
    ]
    return _module_cr({"groups": groups})


def long_descriptions() -> dict[str, Any]:
    """Return a Module CR that is nested like the schema of a CRD."""
    chosen = random.Random(2)  # noqa: S311 - the same text each time

    def text() -> str:
        if chosen.random() < 0.2:
            return "\n".join(" ".join(chosen.choices(WORDS, k=6)) for _ in range(4))
        return " ".join(chosen.choices(WORDS, k=chosen.randint(10, 40)))

    def node(depth: int) -> dict[str, Any]:
        inner = {f"field{number}": node(depth - 1) for number in range(5)} if depth else {}
        return {"type": "object" if depth else "string", "description": text(), "properties": inner}

    return _module_cr({"versions": [{"name": f"v{number}", "schema": node(3)} for number in range(13)]})


def _module_cr(spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "default", "namespace": "kyma-system"}
    return {"apiVersion": VERSION, "kind": KIND, "metadata": metadata, "spec": spec}


def _report(name: str, ours: Callable[[], object], theirs: Callable[[], object], size: int) -> bool:
    """Print the CPU time for 1 MiB; return whether it is within its bar."""
    times: dict[Callable[[], object], list[float]] = {ours: [], theirs: []}
    for _ in range(ROUNDS):
        for work, spent in times.items():
            began = time.process_time()
            work()
            spent.append((time.process_time() - began) * 1e3 * MIB / size)
    value, peer = min(times[ours]), min(times[theirs])
    Figure(
        name=f"module_config_text_{name}",
        unit="ms of CPU for 1 MiB",
        value=round(value, 1),
        peer="PyYAML's C extension, fewer checks",
        peer_value=round(peer, 1),
        bar=f"at most {BAR_MS:g} ms",
        met=value <= BAR_MS,
    ).print()
    return value <= BAR_MS


def _dump(document: dict[str, Any]) -> str:
    text: str = yaml.dump(document, Dumper=yaml.CSafeDumper, allow_unicode=True, width=MIB)
    return text


def _load(text: str) -> Any:
    return yaml.load(text, Loader=yaml.CSafeLoader)


async def _turns() -> bool:
    turns: list[float] = []
    watching = asyncio.create_task(_watch(turns))
    raw = msgspec.json.encode(many_small_values())
    found = {each.source: each for each in (_module_cr_of(number) for number in range(TEXTS))}
    budget = CpuBudget(burst=1e9)
    maker = TextMaker(process=TextProcess(), memory=TextMemory(), budget=budget, clock=SYSTEM_CLOCK)
    reading = await maker.with_texts(Found(None, found, dict.fromkeys(found, raw), complete=True), set(found), {})
    texts = [each.text for each in reading.found.values() if each is not None and each.text is not None]
    assert len(texts) == TEXTS
    manager: ModuleManager[Any] = ModuleManager("thing", dict, lambda config, _: [config])
    await asyncio.gather(*(render(manager, ModuleContext(_config_of(text))) for text in texts))
    watching.cancel()
    await asyncio.wait([watching])
    ordered = sorted(turns)
    Figure(
        name="module_config_text_loop_turn",
        unit="ms of CPU",
        value=round(ordered[-1], 2),
        peer=f"the 99th percentile of {len(turns)} turns",
        peer_value=round(ordered[int(len(turns) * 0.99)], 3),
        bar=f"at most {BAR_TURN_MS:g} ms while {TEXTS} texts are written and read",
        met=ordered[-1] <= BAR_TURN_MS,
    ).print()
    return ordered[-1] <= BAR_TURN_MS


async def _watch(turns: list[float]) -> None:
    while True:
        began = time.thread_time()
        await asyncio.sleep(0)
        turns.append((time.thread_time() - began) * 1e3)


def _module_cr_of(number: int) -> ModuleCr:
    name = f"thing-{number}"
    reference = ResourceReference(
        api_version=VERSION, kind=KIND, namespace="kyma-system", name=name, uid=name, resource_version="1", generation=1
    )
    return ModuleCr(ObjectReference(GROUP, KIND, "kyma-system", name), reference)


def _config_of(text: str) -> ModuleConfig:
    spec = ModuleConfigSpec(kyma="demo", module="thing", resource=text)
    return ModuleConfig(metadata=ObjectMeta(name="demo-thing", namespace="kcp-system"), spec=spec)


if __name__ == "__main__":
    sys.exit(main())
