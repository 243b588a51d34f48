"""Measures what 1 MiB of ModuleConfig text costs, and how long ten such texts hold an event loop.

One text has many small values, the other one long descriptions, as a CRD has. The peer is PyYAML's C dumper and loader,
in this process and in turns; it checks neither duplicate keys nor the cost of aliases. For the turns of the loop, ten
Module CRs become texts as Lifecycle Manager makes them, and then objects as a Module Manager reads them, all at once.

A user's change returns to the loop some 25 times. How long that takes beside large texts is measured without the time
in which the loop's thread waited for a core.
"""

import asyncio
import random
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
import uvloop
import yaml

from benchmarks.core_waits import waited_for_a_core
from benchmarks.figures import Figure
from kube_runtime import dump_yaml, load_yaml
from kyma_module_manager import ModuleContext, ModuleManager
from kyma_module_manager.rendering import render
from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager.module_config.reading import ModuleCr, Reading
from lifecycle_manager.module_config.texts import TextMaker
from lifecycle_manager.process.tuning import SWITCH_SECONDS
from lifecycle_manager_api import ModuleConfig, ModuleConfigSpec, ObjectMeta, ResourceReference

MIB = 1024 * 1024
ROUNDS = 5
TEXTS = 10
BAR_MS = 200.0
BAR_TURN_MS = 20.0
CHANGES, RETURNS = 100, 25
ECHO = "import os, time\nwhile read := os.read(0, 1): time.sleep(0.0003); os.write(1, read)"
"""What answers as quickly as an API server does."""
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
    met.append(uvloop.run(_beside()))
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
    made = await asyncio.gather(*(_text_of(number) for number in range(TEXTS)))
    texts = [text for text in made if text is not None]
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


async def _beside() -> bool:
    """Measure a change beside texts that are made without a pause."""
    sys.setswitchinterval(SWITCH_SECONDS)
    alone = await _median_change()
    beside = await _median_change(lambda: _text_of(0))
    Figure(
        name="module_config_text_change_beside",
        unit="ms",
        value=round(beside, 2),
        peer="alone",
        peer_value=round(alone, 2),
        bar="at most 3 times",
        met=beside <= 3 * alone,
    ).print()
    return beside <= 3 * alone


async def _text_of(number: int) -> str | None:
    """Make the text of a large Module CR as Lifecycle Manager does."""
    module_cr = _module_cr_of(number)
    reading = Reading(None, {module_cr.source: module_cr}, complete=True)
    (made,) = (await MAKER.with_texts(f"cluster-{number}", reading, set(reading.found))).present
    return made.text


async def _median_change(make_text: Callable[[], Awaitable[object]] | None = None) -> float:
    """Return the milliseconds of the median change while texts are made."""
    echo = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ECHO, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert echo.stdin is not None
    assert echo.stdout is not None

    async def make_all() -> None:
        while make_text is not None and len(taken) < CHANGES:
            await make_text()

    taken: list[float] = []
    making = asyncio.create_task(make_all())
    for _ in range(CHANGES):
        await asyncio.sleep(0.005)
        began, waited = time.perf_counter(), waited_for_a_core()
        for _ in range(RETURNS):
            echo.stdin.write(b"x")
            await echo.stdout.read(1)
            sum(range(3_000))  # some of the loop's own work
        taken.append(1000 * (time.perf_counter() - began - (waited_for_a_core() - waited)))
    await making
    echo.stdin.close()
    await echo.wait()
    return statistics.median(taken)


async def _watch(turns: list[float]) -> None:
    while True:
        began = time.thread_time()
        await asyncio.sleep(0)
        turns.append((time.thread_time() - began) * 1e3)


MAKER, RAW = TextMaker(), msgspec.json.encode(many_small_values())


def _module_cr_of(number: int) -> ModuleCr:
    name = f"thing-{number}"
    reference = ResourceReference(
        api_version=VERSION, kind=KIND, namespace="kyma-system", name=name, uid=name, resource_version="1", generation=1
    )
    return ModuleCr(ObjectReference(GROUP, KIND, "kyma-system", name), reference, raw=RAW)


def _config_of(text: str) -> ModuleConfig:
    spec = ModuleConfigSpec(kyma="demo", module="thing", resource=text)
    return ModuleConfig(metadata=ObjectMeta(name="demo-thing", namespace="kcp-system"), spec=spec)


if __name__ == "__main__":
    sys.exit(main())
