"""The program `skr-watcher`."""

import asyncio
import logging
import signal
import sys
import time

import uvloop

from certs import ReloadingServerContext
from watcher.changes import ObjectChange, heartbeat
from watcher.delivery import Delivery, Identity
from watcher.logs import configure_logs
from watcher.metrics import Metrics
from watcher.outbox import RESYNC, Outbox
from watcher.server import Recorder, admission_app, metrics_app, server_of
from watcher.settings import SettingInvalid, Settings

log = logging.getLogger("watcher")

DRAIN_SECONDS = 10.0


def main() -> None:
    """Run the Watcher until SIGTERM or SIGINT."""
    try:
        settings = Settings.from_environment()
    except SettingInvalid as error:
        sys.exit(f"skr-watcher: {error}")
    configure_logs(settings.log_level)
    uvloop.run(run(settings))


async def run(settings: Settings) -> None:
    """Serve admission and deliver events until told to stop; then deliver what is left, within the grace time."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    resync = _resync(settings.resync_manager)
    outbox = Outbox(resync, settings.most_pending)
    metrics = Metrics(lambda: len(outbox))
    recorder = Recorder(outbox)
    tls = ReloadingServerContext(
        settings.tls_cert, settings.tls_key, settings.ca_cert, require_client_certificate=False
    )
    delivery = Delivery(settings, outbox, Identity(settings), metrics)
    admission = server_of(admission_app(recorder, metrics), settings.webhook_host, settings.webhook_port, tls)
    probes = server_of(
        metrics_app(metrics, lambda: not stopping.is_set()), settings.metrics_host, settings.metrics_port
    )
    async with asyncio.TaskGroup() as tasks:
        servers = [tasks.create_task(admission.serve()), tasks.create_task(probes.serve())]
        background = [
            tasks.create_task(tls.run()),
            tasks.create_task(delivery.run()),
            tasks.create_task(_beat(recorder, settings)),
        ]
        recorder.record(resync, time.time())
        log.info("watching", extra={"port": settings.webhook_port, "kcp": settings.kcp_address})
        await stopping.wait()
        admission.should_exit = probes.should_exit = True
        await asyncio.wait(servers)
        await _drain(outbox)
        for task in background:
            task.cancel()


async def _beat(recorder: Recorder, settings: Settings) -> None:
    """Tell the control plane now and then that the way there works; one that could not be told yet is enough."""
    sign_of_life = heartbeat(settings.resync_manager, "heartbeat")
    while True:
        await asyncio.sleep(settings.heartbeat_seconds)
        recorder.record(sign_of_life, time.time())


async def _drain(outbox: Outbox) -> None:
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            await outbox.drained()
        log.info("stopped")
    except TimeoutError:
        log.warning("stopped with changes that could not be delivered", extra={"undelivered": len(outbox)})


def _resync(manager: str) -> ObjectChange:
    return ObjectChange(manager, "", "", "", "", "", RESYNC, "", "", 0)
