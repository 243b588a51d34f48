"""The program `skr-watcher`."""

import asyncio
import logging
import signal
import ssl
import sys
import time
from typing import TYPE_CHECKING

import uvloop

from http_guard import Bounds, server_for
from http_guard.memory import keep_from_collector, return_large_blocks
from kyma_certs import FipsMode, FipsUnavailable, ReloadingServerContext, fips_mode
from kyma_diagnostics import TracingOptions, TracingUnavailable, tracing
from kyma_diagnostics.debug_server import DebugSocketUnusable, debug_socket
from skr_watcher.changes import HEARTBEAT, ObjectChange, heartbeat
from skr_watcher.delivery import Delivery, Identity
from skr_watcher.heartbeat import send_heartbeats
from skr_watcher.logs import configure_logs
from skr_watcher.metrics import Metrics
from skr_watcher.outbox import RESYNC, Outbox
from skr_watcher.pressure import Lateness
from skr_watcher.recorder import Recorder
from skr_watcher.server import AdmissionApp, metrics_app
from skr_watcher.settings import OURS, SettingInvalid, SkrWatcherSettings

if TYPE_CHECKING:
    from kyma_diagnostics.spans import ChangeTracer

log = logging.getLogger("skr_watcher")

MAX_PROBE_CONNECTIONS = 32
MAX_NAMED_CHANGES = 20
IDLE_SECONDS = 120
"""API servers close idle connections after 90 s. A review on its way while the Watcher does so would be lost."""
LARGE_BYTES = 512 * 1024
"""More than one read from a connection: each would cost two more system calls."""


def main() -> None:
    """Run the Watcher until SIGTERM or SIGINT."""
    try:
        settings = SkrWatcherSettings.from_environment()
        mode = fips_mode(only=settings.fips_only)
    except (SettingInvalid, FipsUnavailable) as error:
        sys.exit(f"skr-watcher: {error}")
    configure_logs(settings.log_level)
    return_large_blocks(LARGE_BYTES)
    options = TracingOptions("skr-watcher", settings.otlp_endpoint, settings.trace_sampling_ratio)
    try:
        with tracing(options) as tracer:
            uvloop.run(run(settings, tracer, mode))
    except (TracingUnavailable, DebugSocketUnusable) as error:
        sys.exit(f"skr-watcher: {error}")


async def run(
    settings: SkrWatcherSettings, tracer: "ChangeTracer | None" = None, mode: FipsMode = FipsMode.OFF
) -> None:
    """Serve admission and deliver events until SIGTERM or SIGINT; then deliver pending events within the grace time."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    resync = ObjectChange(settings.resync_manager, "", "", "", "", "", RESYNC, "", "", 0)
    outbox = Outbox(settings.max_pending)
    metrics = Metrics(mode)
    metrics.show_outbox(lambda: len(outbox), lambda: _oldest_age(outbox))
    recorder, lateness = Recorder(outbox, resync, metrics, tracer), Lateness()
    tls = ReloadingServerContext(
        settings.tls_cert,
        settings.tls_key,
        settings.api_server_ca,
        clients=ssl.CERT_NONE if settings.api_server_ca is None else ssl.CERT_REQUIRED,
    )
    delivery = Delivery(settings, outbox, Identity(settings), metrics, tracer)
    admission = server_for(
        AdmissionApp(recorder, metrics, lateness),
        settings.webhook_host,
        settings.webhook_port,
        bounds=Bounds(settings.max_connections, handshakes=settings.max_connections),
        tls=tls.ssl_context,
        on_refusal=recorder.missed,
        idle_seconds=IDLE_SECONDS,
    )
    probes = server_for(
        metrics_app(metrics, lambda: not stopping.is_set()),
        settings.metrics_host,
        settings.metrics_port,
        bounds=Bounds(connections=MAX_PROBE_CONNECTIONS),
    )
    keep_from_collector()
    reports = {"queues": lambda: _pending(outbox)}
    async with debug_socket(settings.debug_socket, reports), asyncio.TaskGroup() as tasks:
        servers = [tasks.create_task(admission.serve()), tasks.create_task(probes.serve())]
        background = [
            tasks.create_task(tls.run()),
            tasks.create_task(delivery.run()),
            tasks.create_task(lateness.watch()),
            tasks.create_task(recorder.send_resyncs()),
        ]
        if settings.kcp_listener == OURS:  # upstream's listener would reconcile the Kyma for each heartbeat
            beat = heartbeat(settings.resync_manager, "heartbeat")
            sending = send_heartbeats(
                lambda: delivery.quiet_seconds,
                lambda: recorder.record(beat, time.time()),
                max_quiet_seconds=settings.heartbeat_seconds,
            )
            background.append(tasks.create_task(sending))
        recorder.resync()
        log.info("watching", extra={"port": settings.webhook_port, "kcp": settings.kcp_address})
        await stopping.wait()
        admission.should_exit = probes.should_exit = True
        await asyncio.wait(servers)
        recorder.send_resync_now()
        await _drain(outbox, settings.drain_seconds)
        for task in background:
            task.cancel()


def _pending(outbox: Outbox) -> tuple[str, ...]:
    return (
        f"outbox: {len(outbox)} changes, the oldest {_oldest_age(outbox):.1f} s old",
        f"dropped for a RESYNC: {outbox.overflows} times",
    )


async def _drain(outbox: Outbox, seconds: float) -> None:
    """Deliver pending events, and log those that could not be; the RESYNC at the next start covers them."""
    outbox.hurry()
    try:
        async with asyncio.timeout(seconds):
            await outbox.drained()
        log.info("stopped")
    except TimeoutError:
        left = [entry.change for entry in outbox.entries if entry.change.operation != HEARTBEAT]
        named = [f"{each.operation} {each.kind} {each.namespace}/{each.name}" for each in left[:MAX_NAMED_CHANGES]]
        log.warning("stopped before all changes were delivered", extra={"undelivered": len(left), "of": named})


def _oldest_age(outbox: Outbox) -> float:
    now = time.monotonic()
    return max((now - entry.recorded_at for entry in outbox.entries), default=0.0)
