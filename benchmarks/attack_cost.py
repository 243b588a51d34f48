"""Measures the CPU time of each attack on the event endpoint, beside a valid event.

The attacks are those of the table in tests/security/events. Each is sent many times to the application, as a server
would call it, and the whole answer counts: routing, reading, verifying up to the refusal, and the problem document.
For some of them that includes the verification of the certificate's chain. One figure each for the most expensive one
that is refused before the chain is verified, the most expensive one of all, and the median; the most expensive are on
stderr.
"""

import asyncio
import gc
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.figures import Figure
from lifecycle_manager.events import EndpointOptions, EventEndpoint, Reason, VerifiedEvent
from tests.security.events.test_attacks import ATTACKS, CA, Message

ROUNDS = 5
REPEATS = 100
BAR_US = 1000.0
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
    return 0 if all(value < BAR_US for _, value in figures) else 1


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
    ).app()
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
