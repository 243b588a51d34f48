"""`klm ui` serves the fleet page of one operator, on a real API server, with the rights of their kubeconfig."""

import asyncio
import html
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from kube_runtime import Client
from kyma_fleet.identities import create_identity
from kyma_local.private_files import write_private
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager_api import names
from tests.integration.fleet.conftest import identity, put_kyma
from tests.klm import KLM, run_klm
from tests.waiting import eventually

KCP = names.KCP_NAMESPACE
BEFORE = "http://127.0.0.1:"


@asynccontextmanager
async def served(kubeconfig: Path, ended_by: int = signal.SIGINT, **more: str) -> AsyncIterator[str]:
    """Yield the address that `klm ui` prints; it ends by a signal, with the exit code of that."""
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), **more}
    arguments = ("ui",) if more else ("ui", "--no-browser")
    process = await asyncio.create_subprocess_exec(
        KLM,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        env=environment,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # not so in the background
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            address = (await process.stdout.readline()).decode().strip()
        yield address
    finally:
        process.send_signal(ended_by)
        async with asyncio.timeout(60):
            assert await process.wait() == 128 + ended_by


async def test_page_shows_the_fleet_to_whoever_has_the_address_once(
    control_plane: Client, kcp: Path, tmp_path: Path
) -> None:
    await put_kyma(control_plane, "on-own-page", {"state": "Ready"})
    viewer = await identity(control_plane, kcp, tmp_path, "klm-viewer")
    async with served(viewer) as address, httpx.AsyncClient(trust_env=False, timeout=60) as browser:
        assert address.startswith(BEFORE)
        root = address.partition("/sign-in/")[0]
        assert (await browser.get(f"{root}/")).status_code == 401
        assert (await browser.get(f"{root}/sign-in/once?key=")).status_code == 401
        begun = await browser.get(address)
        assert begun.status_code == 200
        session = {"Cookie": begun.headers["Set-Cookie"].partition(";")[0]}

        async def shown() -> bool:
            page = await browser.get(f"{root}/kymas/on-own-page", headers=session)
            return page.status_code == 200 and "on-own-page" in page.text

        await eventually(shown, what="the page of the Kyma")
        assert (await browser.get(address)).status_code == 401, "the address signs in once"
        assert (await browser.get(f"{root}/", headers={**session, "Host": "elsewhere.example"})).status_code == 421
    await control_plane.delete(KYMAS, "on-own-page", KCP)


def leads_to(address: str, file: Path) -> bool:
    modes = [path.stat().st_mode & 0o777 for path in (file, file.parent)]
    return modes == [0o600, 0o700] and address in html.unescape(file.read_text())


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM])
async def test_command_line_of_the_browser_has_no_key(
    control_plane: Client, kcp: Path, tmp_path: Path, ended_by: int
) -> None:
    """Every user of a machine can read it; the file with the key is deleted at the end."""
    viewer = await identity(control_plane, kcp, tmp_path, "klm-viewer")
    started = tmp_path / "started"
    browser = tmp_path / "browser"
    waits = "exec tail --pid=$PPID -f /dev/null > /dev/null 2>&1"  # until `klm ui` has ended
    browser.write_text(f'#!/bin/sh\necho "$@" > {started}.new && mv {started}.new {started} && {waits}\n')
    browser.chmod(0o700)
    async with (
        served(viewer, ended_by, BROWSER=f"{browser} %s", TMPDIR=str(tmp_path)) as address,
        httpx.AsyncClient(trust_env=False, timeout=60) as page,
    ):
        await eventually(started.exists, what="the browser")
        argument = started.read_text().strip()
        assert argument.startswith("file:///")
        file = Path(argument.removeprefix("file://"))
        assert leads_to(address, file)
        assert (await page.get(address)).status_code == 200, "it is served while the browser is in the foreground"
    assert not await asyncio.to_thread(file.exists)


async def test_who_may_not_watch_the_fleet_gets_no_page(control_plane: Client, kcp: Path, tmp_path: Path) -> None:
    nobody = await create_identity(control_plane, kcp, name="nobody-ui", namespace=KCP, roles=[])
    result = await run_klm(write_private(tmp_path / "nobody", nobody), "ui", "--no-browser")
    assert (result.code, result.text) == (2, "")
    assert result.errors.startswith("klm: you may not list modulereleasemetas")
    assert "klm-viewer" in result.errors
