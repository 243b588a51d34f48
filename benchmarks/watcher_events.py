"""Measures the signed events per second of one core, and how a noisy cluster affects the latency of others."""

import argparse
import asyncio
import base64
import os
import secrets
import ssl
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import repeat
from pathlib import Path

import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from benchmarks.figures import Figure
from benchmarks.http_load.load import CONNECTIONS, Load, Source, run_sources
from kyma_certs import describe
from kyma_certs.message_signatures import SignatureParameters, algorithm_of, load_signing_key, sign
from kyma_local.ports import free_port
from kyma_local.processes import ChildProcess, start_child
from lifecycle_manager.skr_webhook import CanaryTimes
from tests.watcher_process import CA, cpu_seconds, write_leaf

HOST = "skr-webhook.kyma-system.svc"
PATH = "/v2/lifecycle-manager/event"
BODY = (
    b'{"watched":{"Namespace":"kyma-system","Name":"default"},"watchedGvk":{"group":"operator.kyma-project.io",'
    b'"version":"v1beta2","kind":"Kyma"},"operation":"UPDATE","uid":"f3a1d0a2","resourceVersion":"7","generation":2}'
)
ACCEPTED_BAR = 4000.0
OTHERS = 500
NOISY_PER_SECOND = 5000.0
OTHERS_BAR_MS = 50.0


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each measurement")
    parser.add_argument("--others", type=int, default=OTHERS, help="clusters beside the noisy one")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {1})
    uvloop.run(measure(arguments.seconds, arguments.others))
    return 0


async def measure(seconds: float, others: int) -> None:
    """Measure the accepted events, then the latency of others beside a noisy cluster."""
    with tempfile.TemporaryDirectory(prefix="watcher-bench-") as directory:
        folder = Path(directory)
        await _accepted(folder, seconds)
        await _noisy(folder, seconds, others)


async def _accepted(folder: Path, seconds: float) -> None:
    async with AsyncExitStack() as stack:
        process, port = await _start(stack, folder, per_second=1_000_000)
        sources = [sender(folder, f"runtime-{number}") for number in range(CONNECTIONS)]
        await run_sources(port, sources, seconds=0.5)
        before = cpu_seconds(process.pid)
        load = await run_sources(port, sources, seconds=seconds)
        used = cpu_seconds(process.pid) - before
    assert not load.failures, load.first_failure
    accepted = len(load.latencies) / used
    Figure(
        name="watcher_events_taken",
        unit="1/s of one core",
        value=round(accepted),
        peer="the rate of 10,000 quiet clusters: one answer to a canary each at the interval",
        peer_value=round(10_000 / CanaryTimes().interval),
        bar=f"at least {ACCEPTED_BAR:g}",
        met=accepted >= ACCEPTED_BAR,
    ).print()


async def _noisy(folder: Path, seconds: float, others: int) -> None:
    async with AsyncExitStack() as stack:
        _, port = await _start(stack, folder, per_second=50)
        quiet = [sender(folder, f"quiet-{number}") for number in range(others)]
        one = sender(folder, "noisy")
        noisy = [
            Source(one.context, repeat(next(one.requests)))
        ] * CONNECTIONS  # refused by rate before the replay is detected
        async with asyncio.TaskGroup() as tasks:
            noise = tasks.create_task(run_sources(port, noisy, seconds=seconds + 2, per_second=NOISY_PER_SECOND))
            others_load = tasks.create_task(run_sources(port, quiet, seconds=seconds, per_second=others / 2))
    load: Load = others_load.result()
    refused = noise.result().failures / max(1, len(noise.result().latencies))
    print(f"noisy: {noise.result().per_second:.0f}/s, {refused:.0%} refused", file=sys.stderr)
    Figure(
        name="watcher_events_p99_of_others",
        unit="ms",
        value=round(load.quantile_ms(0.99), 2),
        peer=f"their median, {others} clusters beside one that sends {noise.result().per_second:.0f}/s",
        peer_value=round(load.quantile_ms(0.5), 2),
        bar=f"under {OTHERS_BAR_MS:g} ms",
        met=load.quantile_ms(0.99) < OTHERS_BAR_MS and not load.failures,
    ).print()


def sender(folder: Path, runtime: str) -> Source:
    """Return a source of signed events of one runtime."""
    cert, key = write_leaf(folder, runtime)
    context = ssl.create_default_context(cadata=CA.certificate_pem.decode())
    context.load_cert_chain(cert, key)
    return Source(context, _signed(cert.read_bytes(), key.read_bytes()))


def _signed(cert: bytes, key_pem: bytes) -> Iterator[bytes]:
    key = load_signing_key(key_pem)
    keyid = describe(cert).sha256
    der = x509.load_pem_x509_certificate(cert).public_bytes(serialization.Encoding.DER)
    encoded = base64.b64encode(der).decode()
    url = f"https://{HOST}{PATH}"
    while True:
        now = int(time.time())
        parameters = SignatureParameters(now, now + 60, secrets.token_urlsafe(16), keyid, algorithm_of(key))
        fields = {
            "host": HOST,
            **sign(url, BODY, key, parameters),
            "client-cert": f":{encoded}:",
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        yield f"POST {PATH} HTTP/1.1\r\n{head}content-length: {len(BODY)}\r\n\r\n".encode() + BODY


async def _start(stack: AsyncExitStack, folder: Path, *, per_second: float) -> tuple[ChildProcess, int]:
    cert, key = write_leaf(folder, "endpoint")
    ca = folder / "ca.crt"
    ca.write_bytes(CA.certificate_pem)
    port = free_port()
    command = (sys.executable, "-m", "benchmarks.http_load.events_endpoint", str(port), str(cert), str(key))
    process = await start_child("events", (*command, str(ca), str(per_second)), folder / "events.log")
    stack.push_async_callback(process.kill)
    os.sched_setaffinity(process.pid, {0})
    async with asyncio.timeout(30):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return process, port


if __name__ == "__main__":
    sys.exit(main())
