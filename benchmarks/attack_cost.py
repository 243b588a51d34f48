"""Measures the CPU time of each attack on the event endpoint and on the readers of module sources.

Attacks on the event endpoint are compared with a valid event.

The attacks are those of the table in tests/security/events. Each is sent many times to the application, as a server
would call it, and the whole answer counts: routing, reading, verifying up to the refusal, and the problem document.
For some of them that includes the verification of the certificate's chain. One figure each for the most expensive one
that is refused before the chain is verified, the most expensive one of all, and the median; the most expensive are on
stderr.

Texts, layers, pages of Module CRs and answers that expand are compared with valid ones of as many bytes.
"""

import asyncio
import gc
import gzip
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import httpx

from benchmarks.figures import Figure
from kube_runtime import KubeError, ManifestInvalid, load_yaml
from kube_runtime.client.decoding import decoding_for
from kube_runtime.client.json_limits import check_json
from kyma_oci import SourceError, text_in
from lifecycle_manager.events.endpoint import EndpointOptions, EventEndpoint, VerifiedEvent
from lifecycle_manager.events.problems import Reason
from lifecycle_manager.module_config.reading import ANSWER
from lifecycle_manager.module_sources.downloads import DownloadFailed, bounded_body
from tests.security.events.test_attacks import ATTACKS, CA, Message

ROUNDS = 5
REPEATS = 100
BAR_US = 1000.0
# Merge keys and gzip members cost twice their peers, because they are checked one by one. What grows by the square or
# expands costs tens of times as much.
MAX_RATIO = 3.0
VALID = "a valid event"
# Refusals with these reasons come during or after the verification of the certificate's chain.
AFTER_THE_CHAIN = frozenset(
    {Reason.CERTIFICATE, Reason.NO_RUNTIME, Reason.SIGNATURE, Reason.MALFORMED, Reason.UNKNOWN_RUNTIME}
)


def main() -> int:
    """Measure and print the figures; return 1 if the bar was missed."""
    costs = asyncio.run(_measure())
    valid = costs.pop(VALID)
    before = {name: cost for name, cost in costs.items() if ATTACKS[name][1] not in AFTER_THE_CHAIN}
    for name, cost in sorted(costs.items(), key=lambda item: -item[1])[:10]:
        print(f"  {cost:7.1f} µs  {name} ({ATTACKS[name][1]})", file=sys.stderr)
    figures = (
        ("attack_cost_before_chain_worst", max(before.values())),
        ("attack_cost_worst", max(costs.values())),
        ("attack_cost_median", statistics.median(costs.values())),
    )
    for name, value in figures:
        Figure(
            name=name,
            unit="µs of CPU a request",
            value=round(value, 1),
            peer=VALID,
            peer_value=round(valid, 1),
            bar=f"under {BAR_US:g} µs",
            met=value < BAR_US,
        ).print()
    cheap = [_measure_source(attack) for attack in _source_attacks()]
    return 0 if all(value < BAR_US for _, value in figures) and all(cheap) else 1


class SourceAttack(NamedTuple):
    """A reader, what a stranger has it read, and something valid of as many bytes."""

    name: str
    read: Callable[[Any], object]
    hostile: Any
    valid: Any


def _source_attacks() -> list[SourceAttack]:
    aliases = f"a: &a {'x' * 20_000}\nb: [{','.join(['*a'] * 1_000)}]\n"
    merges = "a:\n" + "".join(f"  <<: {{k{number}: 1}}\n" for number in range(20_000))
    members = gzip.compress(b"") * 400_000
    before = gzip.compress(b"") * 4_000 + gzip.compress(os.urandom(len(members) - 100_000), 1)
    stacked = gzip.compress(gzip.compress(bytes(95 * 1024 * 1024), 9), 9)
    layer = gzip.compress(os.urandom(len(members) - 4_000), 1)
    page = _page([b'{"metadata":{"name":"one"},"spec":{"text":"%s"}}' % (b"x" * 50_000)] * 100)
    nested, values = (
        _page([b'{"a":[%s]}' % each]) for each in (b"[" * 2_500_000 + b"]" * 2_500_000, b"{}," * 1_666_000)
    )
    return [
        SourceAttack("yaml_aliases", load_yaml, aliases, _valid_text(len(aliases))),
        SourceAttack("yaml_merges", load_yaml, merges, _valid_text(len(merges))),
        SourceAttack("gzip_members", _text_in, members, layer),
        SourceAttack("gzip_members_before_a_layer", _text_in, before, layer),
        SourceAttack("nested_page", _read_page, nested, page),
        SourceAttack("page_of_values", _read_page, values, page),
        SourceAttack("stacked_gzip", _read_answer, ("gzip, gzip", stacked), ("identity", bytes(len(stacked)))),
    ]


def _measure_source(attack: SourceAttack) -> bool:
    """Print the CPU time of an attack and of its peer; return whether it is in bounds."""
    hostile, valid = (_milliseconds(attack.read, content) for content in (attack.hostile, attack.valid))
    met = hostile < max(MAX_RATIO * valid, 1.0)
    Figure(
        name=f"attack_cost_{attack.name}",
        unit="ms of CPU",
        value=round(hostile, 2),
        peer="valid, as many bytes",
        peer_value=round(valid, 2),
        bar=f"under {MAX_RATIO:g} times that, or 1 ms",
        met=met,
    ).print()
    return met


def _milliseconds(read: Callable[[Any], object], content: Any) -> float:
    rounds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        with suppress(ManifestInvalid, SourceError, DownloadFailed, KubeError):
            read(content)
        rounds.append((time.process_time() - start) * 1e3)
    return min(rounds)


def _valid_text(size: int) -> str:
    return "".join(f"key-{number}: value\n" for number in range(size // 16))


def _page(items: Iterable[bytes]) -> bytes:
    return b'{"items":[%s],"metadata":{}}' % b",".join(items)


def _read_page(body: bytes) -> object:
    check_json(body, ANSWER)
    return decoding_for(dict).raw_list(body, without_nested=True)


def _text_in(content: bytes) -> bytes:
    return text_in(content, "layer")


def _read_answer(encoded: tuple[str, bytes]) -> bytes:
    encoding, content = encoded

    async def read() -> bytes:
        response = httpx.Response(200, headers={"Content-Encoding": encoding}, stream=_Stream(content))
        return await bounded_body(response, "link")

    return asyncio.run(read())


class _Stream(httpx.AsyncByteStream):
    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._content


async def _do_nothing(_: VerifiedEvent) -> None:
    return


async def _measure() -> dict[str, float]:
    """Return the CPU time of one request in microseconds by the attack's name: the minimum of the rounds."""
    refused: list[Reason] = []
    app: Any = EventEndpoint(
        trust=lambda: CA.certificate_pem,
        subscriber=_do_nothing,
        ready=lambda: True,
        count_refusal=refused.append,
        options=EndpointOptions(events_per_second=1e9, burst=1_000_000_000),
    )
    costs: dict[str, float] = {}
    gc.disable()
    for name, change in _messages().items():
        rounds = []
        for number in range(ROUNDS):
            messages = [
                _scope_and_body(change(Message(nonce=f"nonce-of-{number}-{repeat}"))) for repeat in range(REPEATS)
            ]
            start = time.process_time()
            for scope, body in messages:
                await app(scope, _receiver(body), _ignore)
            rounds.append((time.process_time() - start) / REPEATS * 1e6)
        costs[name] = min(rounds)
        gc.collect()
    return costs


def _messages() -> dict[str, Callable[[Message], Message]]:
    attacks = {name: change for name, (_, _, change) in ATTACKS.items()}
    return {VALID: lambda message: message, **attacks}


def _scope_and_body(message: Message) -> tuple[dict[str, Any], bytes]:
    """Return a request as uvicorn passes it to the application."""
    body = message.body if message.sent_body is None else message.sent_body
    fields = [(name.lower(), value) for name, value in message.raw_fields()]
    host = [] if any(name == b"host" for name, _ in fields) else [(b"host", b"kcp")]
    path, _, query = message.path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "https",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": host + fields,
        "client": ("127.0.0.1", 1),
        "server": ("kcp", 443),
        "extensions": {},
    }
    return scope, body


def _receiver(body: bytes) -> Callable[[], Any]:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def _ignore(_: dict[str, Any]) -> None:
    """Ignore the answer."""


if __name__ == "__main__":
    sys.exit(main())
