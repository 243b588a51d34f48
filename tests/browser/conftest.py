"""A real browser, and the fleet page of a made-up fleet that a test may change."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from http_guard import Bounds, server_for
from kyma_fleet_page.access import AccessDecision
from kyma_fleet_page.app import create_app
from kyma_local.ports import free_port
from lifecycle_manager.contract.resources import DatedReleaseMeta
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager_api import Kyma, ModuleReleaseMeta, ModuleRollout, ModuleTemplate, as_document, names
from tests import builders
from tests.page_sources import AnyRight, MadeUp, Parts

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
expect.set_options(timeout=20_000)
TOKEN = "a-token-of-an-operator"
REGIONS = ("eu-central-1", "us-east-1", "ap-south-1")


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.xdist_group("browser"))
    if CHROMIUM is None:
        item.add_marker(pytest.mark.skip(reason="needs Chromium: make browser, or CHROMIUM=/path/to/it"))


SINCE = "2026-11-22T10:00:00Z"
IN_ORDER = [
    builders.condition(kind, "Ready", text, "True", at=SINCE)
    for kind, text in (
        ("SKRReachable", "the cluster answers"),
        ("SKRWebhook", "kinds of Module CR that are watched: 1"),
        ("ModuleCatalog", "objects of the catalog in the cluster: 3"),
    )
]


class OneToken(AnyRight):
    async def of(self, token: str) -> AccessDecision:
        return AccessDecision.ALLOWED if token == TOKEN else AccessDecision.UNKNOWN


@dataclass(eq=False)
class Fleet:
    """Kymas by name. A change gives one another revision, as the API server does."""

    kymas: dict[str, Kyma] = field(default_factory=dict)
    parts: dict[str, Parts] = field(default_factory=dict)
    releases: list[ModuleReleaseMeta] = field(default_factory=list)
    templates: list[ModuleTemplate] = field(default_factory=list)
    rollouts: list[ModuleRollout] = field(default_factory=list)
    revision: int = 0

    def put(self, name: str, state: str = "Ready", message: str = "", *, version: str = "1.2.0", **given: Any) -> None:
        self.revision += 1
        module = builders.module_status("api-gateway", version, state, message=message)
        reason, status = ("Ready", "True") if state == "Ready" else (f"Module{state}", "False")
        ready = builders.condition("Ready", reason, message, status, at=given.get("since", SINCE))
        self.kymas[name] = builders.kyma(
            name,
            status={
                "state": state,
                "modules": given.get("modules", [module]),
                "conditions": [ready, *IN_ORDER],
                "observedGeneration": 1,
                "activeChannel": "regular",
            },
            labels={names.REGION: given.get("region", REGIONS[len(name) % 3])},
            resourceVersion=str(self.revision),
        )

    def offer(self) -> Offer:
        return Offer.of(
            self.templates, [msgspec.convert(as_document(each), DatedReleaseMeta) for each in self.releases]
        )


@pytest.fixture
def fleet() -> Fleet:
    """An empty fleet."""
    return Fleet()


@asynccontextmanager
async def served(fleet: Fleet, port: int) -> AsyncIterator[str]:
    """Serve the page of a fleet until the block ends."""
    made_up = MadeUp(
        fleet.kymas, fleet.parts, lambda: fleet.releases, offer=fleet.offer, rollouts=lambda: fleet.rollouts
    )
    server = server_for(
        create_app(made_up, OneToken(), control_plane="kcp.example:6443"),
        "127.0.0.1",
        port,
        bounds=Bounds(connections=100),
    )
    serving = asyncio.create_task(server.serve())
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    await serving


@pytest_asyncio.fixture
async def address(fleet: Fleet) -> AsyncIterator[str]:
    async with served(fleet, free_port()) as address:
        yield address


@pytest_asyncio.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        yield started
        await started.close()


@pytest_asyncio.fixture
async def operator(browser: Browser) -> AsyncIterator[BrowserContext]:
    """A window of an operator, who has signed in by a proxy."""
    made = await browser.new_context(extra_http_headers={"Authorization": f"Bearer {TOKEN}"})
    made.set_default_timeout(20_000)
    yield made
    await made.close()


@pytest_asyncio.fixture
async def context(operator: BrowserContext) -> AsyncIterator[BrowserContext]:
    """The same; an error of a script fails the test."""
    errors: list[str] = []
    operator.on("weberror", lambda error: errors.append(str(error.error)))
    operator.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    yield operator
    assert errors == []


@pytest_asyncio.fixture
async def page(context: BrowserContext) -> Page:
    return await context.new_page()
