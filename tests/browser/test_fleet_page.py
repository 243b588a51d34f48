"""The fleet page in a real browser: every view, live updates, filters, hostile names, no token, and 10,000 clusters."""

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, BrowserContext, Page, expect

from kyma_local.ports import free_port
from lifecycle_manager_api import names
from tests import builders
from tests.browser.conftest import REGIONS, TOKEN, Fleet, served
from tests.page_sources import Parts
from tests.unit.fleet_page.rollouts import rollout

SCREENSHOTS = os.environ.get("SCREENSHOTS")
"""A folder for the pictures of the documentation: `SCREENSHOTS=docs/pictures pytest tests/browser`."""
OBJECT = {"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "kyma-system"}
ERROR = re.compile("^error")
TIME = "2026-11-22T10:00:00Z"
STYLE = "(it, of) => getComputedStyle(it)[of]"
PHASES = {"istio": "Progressing", "keda": "AwaitingApproval", "serverless": "Completed"}
MISTAKE = "Infrastructure default: VPC peering all is with the whole internet (NetworkTooWide)"


async def photograph(page: Page, name: str) -> None:
    if SCREENSHOTS:
        await page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png")


def many(fleet: Fleet, number: int) -> None:
    for index in range(number):
        state = {0: "Error", 1: "Warning", 2: "Processing"}.get(index % 97, "Ready")
        message = {"Error": MISTAKE, "Warning": "no events from the Watcher for 60 s"}.get(state, "")
        version = "1.3.0" if index % 5 == 0 else "1.2.0"
        fleet.put(f"kyma-{index:05}", state, message, version=version, region=REGIONS[index % 3])


async def test_change_of_a_cluster_shows_without_a_click(fleet: Fleet, address: str, page: Page) -> None:
    many(fleet, 300)
    await page.goto(address)
    square = page.locator("#k-kyma-00010")
    await expect(square).to_have_class("ready")
    fleet.put("kyma-00010", "Error", "no nodes")
    await expect(square).to_have_class(ERROR)
    await expect(square).to_have_accessible_name(re.compile("^kyma-00010: Error .* no nodes$"))
    await expect(page.locator("#counts")).to_contain_text("5 Error")
    await expect(page.locator(".worst")).to_contain_text("no nodes")
    fleet.put("kyma-new")
    await expect(page.locator("#k-kyma-new")).to_be_visible()
    fleet.kymas.pop("kyma-new")
    await expect(page.locator("#k-kyma-new")).to_have_count(0)


async def test_filters_are_in_the_address_and_stay_live(fleet: Fleet, address: str, page: Page) -> None:
    many(fleet, 100)
    await page.goto(address)
    await page.get_by_label("State").select_option("Error")
    await page.wait_for_url("**/?state=Error")
    await page.get_by_label("Group by").select_option("region")
    await page.wait_for_url("**/?state=Error&group=region")
    await expect(page.locator(".squares > a")).to_have_count(2)
    await expect(page.get_by_role("heading", name=REGIONS[0])).to_be_visible()
    fleet.put("kyma-00003", "Error", "no nodes", region=REGIONS[0])
    await expect(page.locator(".squares > a")).to_have_count(3)
    await page.goto(f"{address}/?module=api-gateway&version=1.3.0")
    await expect(page.locator(".squares > a")).to_have_count(20)


async def test_typing_filters_at_once_and_back_leads_to_the_page_before(fleet: Fleet, address: str, page: Page) -> None:
    many(fleet, 100)
    await page.goto(address)
    await page.get_by_label("Name or cause").press_sequentially("kyma-0001")
    await expect(page.locator(".squares > a")).to_have_count(10)
    fleet.kymas.pop("kyma-00013")
    await expect(page.locator(".squares > a")).to_have_count(9)
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.get_by_role("button", name="Copy the names").click()
    copied = await page.evaluate("navigator.clipboard.readText()")
    assert sorted(copied.split()) == [f"kyma-0001{number}" for number in "012456789"]
    await page.get_by_label("Name or cause").press("Enter")
    await page.wait_for_url("**/?text=kyma-0001")
    await page.go_back()
    await expect(page.locator(".squares > a")).to_have_count(99)
    await page.get_by_label("State").select_option("Error")
    await page.wait_for_url("**/?state=Error")
    await page.go_back()
    await expect(page.locator(".squares > a")).to_have_count(99)
    await expect(page.get_by_label("State")).to_have_value("")
    versions = page.locator("#versions option")
    assert [await each.get_attribute("value") for each in await versions.all()] == ["1.2.0", "1.3.0"]


async def test_causes_come_first_with_their_clusters(fleet: Fleet, address: str, page: Page) -> None:
    many(fleet, 194)
    await page.goto(address)
    rows = page.locator(".causes tbody tr")
    await expect(rows).to_have_count(3)
    await expect(rows.first).to_contain_text("ModuleError api-gateway")
    fleet.put("kyma-00010", "Error", "no nodes")
    await expect(rows.first.get_by_role("link")).to_have_text("3")
    await rows.first.get_by_role("link").click()
    await expect(page.locator(".squares > a")).to_have_count(3)
    await expect(page).to_have_url(re.compile("#clusters$"))
    await page.get_by_role("link", name="Remove the filter").click()
    await expect(page.locator(".squares > a")).to_have_count(3)
    await page.locator("#counts").get_by_text("in all").click()
    await expect(page.locator(".squares > a")).to_have_count(194)


@pytest.mark.parametrize("colours", ["light", "dark"])
async def test_every_page_meets_wcag_aa(
    fleet: Fleet, address: str, browser: Browser, colours: Literal["light", "dark"]
) -> None:
    many(fleet, 2000)
    fleet.releases.append(builders.release("api-gateway", regular="1.2.0", fast="1.3.0"))
    fleet.rollouts += [rollout(spec={"approvals": [{"wave": "europe", "by": "jane", "at": TIME}]})]
    fleet.rollouts += [rollout(module, phase=phase) for module, phase in PHASES.items()]
    headers = {"Authorization": f"Bearer {TOKEN}"}
    context = await browser.new_context(extra_http_headers=headers, bypass_csp=True, color_scheme=colours)
    page = await context.new_page()
    for width in (1400, 400):
        await page.set_viewport_size({"width": width, "height": 900})
        for path in (
            "/",
            "/?group=region&state=Error",
            "/kymas/kyma-00000",
            "/modules",
            "/modules/api-gateway",
            "/rollouts/api-gateway-regular-2",
            "/kymas/no",
            "/no",
        ):
            await page.goto(address + path)
            await page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
            assert await page.evaluate("document.documentElement.scrollWidth") <= width
            found = (await Axe().run(page)).response["violations"]
            assert [(path, each["id"], each["nodes"][0]["html"]) for each in found] == []
    await context.close()


async def test_cluster_shows_the_way_to_the_cause(fleet: Fleet, address: str, page: Page) -> None:
    fleet.templates.append(builders.template("cloud-resources", "0.2.0"))
    fleet.releases.append(builders.release("cloud-resources", fast="0.2.0"))
    module = {"name": "cloud-resources", "version": "0.2.0", "channel": "fast", "state": "Error", "message": MISTAKE}
    fleet.put("demo", "Error", MISTAKE, modules=[module])
    reference = {"apiVersion": "v1", "kind": "Infrastructure", "namespace": "kyma-system", "name": "default"}
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "NetworkTooWide",
        "message": MISTAKE,
        "lastTransitionTime": TIME,
    }
    config = builders.module_config(
        spec={"resourceRef": reference},
        status={"state": "Error", "conditions": [condition]},
        annotations={names.OBSERVED_AT: "2026-11-22T10:00:00.5Z"},
    )
    synced = [OBJECT | {"name": f"network-{number}", "state": "Ready"} for number in range(3)]
    resource = builders.sync_resource(status={"state": "Ready", "synced": synced, "objects": "3/3"})
    fleet.parts["demo"] = Parts((), (config,), (resource,))
    await page.goto(address)
    await page.locator("#k-demo").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("demo")
    cause = page.locator(".tree li", has_text="ModuleConfig").last
    await expect(cause).to_contain_text("NetworkTooWide")
    await expect(cause).to_be_visible()
    await expect(cause.get_by_label("not in order")).to_be_visible()
    await page.locator(".tree summary", has_text="in order: asked for, resolved to, SyncResource").click()
    await page.locator(".tree summary", has_text="SyncResource demo").click()
    await expect(page.locator(".tree").get_by_text("kyma-system/network-2 is Ready")).to_be_visible()
    await expect(page.get_by_role("cell", name="module api-gateway: no nodes")).to_be_visible()
    await expect(page.locator(".timeline")).to_contain_text("wrote the content of ModuleConfig")
    await expect(page.get_by_role("row", name="cloud-resources Error 0.2.0 fast")).to_be_visible()
    await expect(page.get_by_role("navigation", name="Path").get_by_role("link", name="Fleet")).to_be_visible()
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.get_by_role("button", name="Copy the command").first.click()
    assert await page.evaluate("navigator.clipboard.readText()") == "klm events demo"
    await expect(page.get_by_role("status")).to_have_text("Copied the command")
    await expect(page.get_by_role("button", name="Copied").first).to_be_focused()
    await expect(page.get_by_role("row", name="cloud-resources Error 0.2.0 fast")).to_contain_text(re.compile(r"\dd"))
    await photograph(page, "cluster")
    compared = page.get_by_role("region", name="What a reconcile would change in the cluster")
    await compared.get_by_text("cloud-resources").click()
    await expect(compared.locator("pre .added")).to_have_text("+  colour: blue")
    fleet.put("demo", "Ready", modules=[module | {"state": "Ready", "message": ""}])
    await expect(page.locator(".tree > li > details > summary")).to_contain_text("demo is Ready")
    await expect(page.locator(".tree").get_by_text("kyma-system/network-2 is Ready")).to_be_visible()


async def test_changes_of_the_last_hour_are_listed_as_they_come(fleet: Fleet, address: str, page: Page) -> None:
    many(fleet, 10)
    await page.goto(address)
    recent = page.get_by_role("region", name="Changes of the last hour")
    await expect(recent).to_contain_text("No cluster became ready")
    fleet.put("kyma-00003", "Error", MISTAKE, since=datetime.now(UTC).isoformat())
    rows = recent.locator("tbody tr")
    await expect(rows).to_contain_text("NetworkTooWide")
    await expect(rows.get_by_role("link", name="kyma-00003")).to_be_visible()
    fleet.put("kyma-00004", "Error", MISTAKE, since=datetime.now(UTC).isoformat())
    await expect(rows.locator(".number")).to_have_text("2")
    await expect(rows).to_have_count(1)
    await rows.get_by_role("link", name="2", exact=True).click()
    await expect(page.locator(".squares > a")).to_have_count(3)


async def test_rollout_is_followed_on_the_overview_and_on_its_page(fleet: Fleet, address: str, page: Page) -> None:
    many(fleet, 20)
    await page.goto(address)
    rollouts = page.get_by_role("region", name="Rollouts")
    await expect(rollouts).to_contain_text("No rollout is under way")
    await rollouts.get_by_text("The last completed").click()
    fleet.rollouts = [rollout(phase="Progressing", failed={})]
    row = rollouts.get_by_role("row", name="api-gateway regular 1.2.0 Progressing")
    await expect(row).to_contain_text("4 under way")
    fleet.rollouts = [rollout()]
    await expect(rollouts.get_by_role("row", name="Halted")).to_contain_text("no route")
    await expect(rollouts.get_by_text("No rollout is completed")).to_be_visible()
    await photograph(page, "rollouts")
    await rollouts.get_by_role("link", name="api-gateway").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Halted")
    await expect(page.get_by_text("klm rollout undo api-gateway-regular-2")).to_be_visible()
    await expect(page.get_by_role("region", name="Clusters that failed")).to_contain_text("ObjectsNotReady")
    fleet.rollouts = [rollout(phase="Completed", failed={}, resource_version="3")]
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Completed")


async def test_objects_are_read_when_they_come_into_view(fleet: Fleet, address: str, page: Page) -> None:
    fleet.put("demo")
    await page.goto(f"{address}/kymas/demo")
    objects = page.get_by_role("region", name="Objects in the control plane")
    await objects.scroll_into_view_if_needed()
    await objects.get_by_text("Kyma demo").click()
    await expect(objects.locator("pre")).to_contain_text("kind: Kyma")
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await objects.get_by_role("button", name="Copy Kyma demo").click()
    assert str(await page.evaluate("navigator.clipboard.readText()")).startswith("kind: Kyma\n")


async def test_module_shows_versions_channels_and_states(fleet: Fleet, address: str, page: Page) -> None:
    many(fleet, 97)
    fleet.releases.append(builders.release("api-gateway", regular="1.2.0", fast="1.3.0"))
    await page.goto(f"{address}/modules")
    await page.get_by_role("link", name="api-gateway").click()
    await expect(page.get_by_role("region", name="Released")).to_contain_text(re.compile(r"fast\s*1\.3\.0"))
    await expect(page.get_by_role("row", name="1.3.0 regular Error 1")).to_be_visible()
    await photograph(page, "module")
    await page.get_by_role("link", name="1.3.0").first.click()
    await expect(page.locator(".squares > a")).to_have_count(20)


async def test_script_in_a_name_or_message_is_text(fleet: Fleet, address: str, page: Page) -> None:
    script = "<img src=x onerror=\"document.title='taken over'\"><script>document.title='taken over'</script>"
    fleet.put("demo", "Error", script, region=script, modules=[{"name": script, "state": "Error", "message": script}])
    for path in ("/", "/?group=region", "/kymas/demo", "/?text=<script>document.title='taken over'</script>"):
        await page.goto(address + path)
        await expect(page.locator("main")).to_contain_text("Fleet" if "kymas" not in path else "onerror")
        assert await page.title() != "taken over"
    await page.goto(address)
    fleet.put("demo", "Warning", script)
    await expect(page.locator("#k-demo")).to_have_class(re.compile("^warning"))
    assert await page.title() == "Fleet | Kyma"
    assert await page.locator("main img, main script").count() == 0


async def test_nothing_is_shown_without_a_token(fleet: Fleet, address: str, browser: Browser) -> None:
    fleet.put("secret-cluster")
    context = await browser.new_context()
    page = await context.new_page()
    link = f"{address}/?text=secret&group=region"
    answer = await page.goto(link)
    assert answer is not None
    assert answer.status == 401
    assert "secret-cluster" not in await page.content()
    await page.get_by_label("Token").fill("wrong")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert")).to_contain_text("not valid")
    await page.get_by_label("Token").fill(TOKEN)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("link", name="secret-cluster")).to_be_visible()
    assert page.url == link
    (cookie,) = await context.cookies()
    assert (cookie["name"], cookie["secure"], TOKEN in str(cookie)) == ("__Host-fleet-session", True, False)
    await page.goto(address)
    fleet.put("secret-cluster", "Error")
    await expect(page.locator("#k-secret-cluster")).to_have_class(ERROR)
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    await context.close()


async def test_page_says_that_it_is_stale_and_recovers(fleet: Fleet, operator: BrowserContext) -> None:
    port = free_port()
    fleet.put("demo")
    pages = [await operator.new_page() for _ in range(3)]
    async with served(fleet, port) as address:
        for page, path in zip(pages, ("/", "/kymas/demo", "/modules"), strict=True):
            await page.goto(address + path)
            await expect(page.locator(".as-of")).to_be_visible()
            await expect(page.locator("#stale")).to_be_hidden()
    for page in pages:
        await expect(page.locator("#stale")).to_contain_text("Not live: last update at")
    fleet.put("demo", "Error", "no nodes")
    async with served(fleet, port):
        for page in pages:
            await expect(page.locator("#stale")).to_be_hidden(timeout=20_000)
        await expect(pages[0].locator("#k-demo")).to_have_class(ERROR)
        await expect(pages[1].get_by_role("heading", level=1)).to_contain_text("Error")


async def test_empty_fleet_and_filter_without_a_match_say_so(fleet: Fleet, address: str, page: Page) -> None:
    await page.goto(address)
    await expect(page.locator("#squares .nothing")).to_contain_text("no clusters in this control plane")
    many(fleet, 97 * 60)
    await expect(page.locator("caption")).to_contain_text("The worst 10 of 180")
    await page.goto(f"{address}/?state=Error")
    await expect(page.locator("caption")).to_contain_text("All 60 that are not ready, among the 60 of 5,820")
    await expect(page.locator(".worst tbody tr")).to_have_count(60)
    await page.goto(f"{address}/?region={REGIONS[0]}&state=Error")
    await expect(page.locator("caption")).to_contain_text("All 20 that are not ready, among the 20 of 5,820")
    await page.goto(f"{address}/?text=nothing")
    await expect(page.locator("#squares .nothing")).to_contain_text("No cluster matches the filter")
    await page.goto(f"{address}/?state=Ready")
    await expect(page.locator("#squares .nothing")).to_contain_text("Of 5,820 clusters, these 5,640 are ready")


async def test_keyboard_moves_between_the_squares(fleet: Fleet, address: str, page: Page) -> None:
    many(fleet, 200)
    await page.goto(address)
    await page.locator(".squares > a").first.focus()
    await page.keyboard.press("End")
    await page.keyboard.press("Home")
    first = page.locator(".squares > a").first
    assert await first.evaluate("it => Math.min(it.offsetLeft, it.offsetTop)") >= 4, "its outline is not cut"
    assert await first.evaluate(STYLE, "zIndex") == "1", "nor covered by the next square"
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "End"):
        await page.keyboard.press(key)
    last = page.locator(".squares > a").last
    await expect(last).to_be_focused()
    name = (await last.get_attribute("id") or "").removeprefix("k-")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_contain_text(name)


async def test_page_fits_a_phone_and_follows_the_colours_of_the_system(
    fleet: Fleet, address: str, context: BrowserContext, page: Page
) -> None:
    many(fleet, 300)
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.emulate_media(color_scheme="dark")
    await page.goto(address)
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    account = page.locator("header .account")
    await expect(account).to_contain_text("at kcp.example:6443")
    assert await account.evaluate("it => it.scrollWidth <= it.clientWidth"), "user and control plane are not cut"
    dark = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    await photograph(page, "phone")
    await page.emulate_media(color_scheme="light")
    assert await page.evaluate("getComputedStyle(document.body).backgroundColor") != dark


async def test_ten_thousand_clusters_are_shown(fleet: Fleet, address: str, page: Page) -> None:
    many(fleet, 10_000)
    await page.set_viewport_size({"width": 1400, "height": 900})
    await page.goto(address)
    await expect(page.locator(".squares > a")).to_have_count(10_000)
    await expect(page.locator("#counts")).to_contain_text("10,000 in all")
    await photograph(page, "fleet")
    fleet.put("kyma-09999", "Error", "no nodes")
    await expect(page.locator("#k-kyma-09999")).to_have_class(ERROR)


@pytest.mark.parametrize("path", ["/kymas/demo", "/rollouts/api-regular-2", "/modules/api-gateway"])
async def test_page_of_what_is_gone_says_so(fleet: Fleet, address: str, operator: BrowserContext, path: str) -> None:
    page = await operator.new_page()
    fleet.put("demo")
    fleet.rollouts.append(rollout("api"))
    await page.goto(address + path)
    await expect(page.locator(".as-of")).to_be_visible()
    fleet.kymas.clear()
    fleet.rollouts.clear()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Not found")


async def test_change_leaves_what_is_typed(fleet: Fleet, address: str, page: Page) -> None:
    many(fleet, 200)
    await page.goto(address)
    await page.get_by_label("Name or cause").fill("kyma-00097")
    await expect(page.locator(".squares > a")).to_have_count(1)
    fleet.put("kyma-00097", "Error", "no nodes")
    await expect(page.locator(".worst")).to_contain_text("no nodes")
    await expect(page.locator(".worst tbody tr")).to_have_count(1)


async def test_hidden_tabs_leave_the_connections_of_a_browser_to_others(
    fleet: Fleet, address: str, operator: BrowserContext
) -> None:
    many(fleet, 10)
    tabs = [await operator.new_page() for _ in range(8)]  # a browser has six connections for all tabs of a host
    for tab in tabs:
        await tab.goto(address)
        await expect(tab.locator("#k-kyma-00005")).to_be_visible()
        await turn(tab, hidden="true")
    fleet.put("kyma-00005", "Error", "no nodes")
    await turn(tabs[0], hidden="false")
    await expect(tabs[0].locator("#k-kyma-00005")).to_have_class(ERROR)
    await expect(tabs[0].locator("#stale")).to_be_hidden()


async def turn(tab: Page, *, hidden: str) -> None:
    """Hide or show a tab, as a window does: without a window all are shown."""
    await tab.evaluate(f"Object.defineProperty(document, 'hidden', {{ value: {hidden}, configurable: true }})")
    await tab.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


async def test_change_leaves_what_is_opened_and_the_focus(fleet: Fleet, address: str, page: Page) -> None:
    for index in range(12):
        name = f"module-{index:02}"
        module = builders.module_status(name, "1.2.0", "Error")
        fleet.put(f"kyma-{index:05}", "Error", f"{name} has no nodes", modules=[module])
    await page.goto(address)
    more = page.get_by_role("region", name="What is wrong").locator("details")
    await more.get_by_text("2 more causes").click()
    link = more.get_by_role("link").last
    await link.focus()
    fleet.put("kyma-00020")
    await expect(page.locator("#counts")).to_contain_text("13 in all")
    await expect(more).to_have_attribute("open", "")
    await expect(link).to_be_focused()


async def test_change_opens_and_closes_nothing_in_place_of_the_user(fleet: Fleet, address: str, page: Page) -> None:
    modules = []
    for name in ("istio", "keda"):
        fleet.templates.append(builders.template(name, "1.2.0"))
        fleet.releases.append(builders.release(name, regular="1.2.0"))
        modules.append(builders.module_status(name, "1.2.0", "Ready"))
    fleet.put("demo", "Processing", modules=modules)
    await page.goto(f"{address}/kymas/demo")
    tree = page.locator(".tree")
    await tree.locator("summary", has_text="module istio").click()
    opened = await tree.locator("details[open]").count()
    fleet.put("demo", "Warning", modules=modules)
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Warning")
    await expect(tree.locator("details[open]")).to_have_count(opened)
    await tree.locator("summary").first.click()  # it is open at first
    await expect(tree.locator("details").first).not_to_have_attribute("open", "")
    fleet.put("demo", "Error", modules=modules)
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Error")
    await expect(tree.locator("details").first).not_to_have_attribute("open", "")


async def test_states_and_the_current_page_differ_in_forced_colours(fleet: Fleet, address: str, page: Page) -> None:
    fleet.put("good")
    fleet.put("bad", "Error")
    await page.emulate_media(forced_colors="active")
    await page.goto(address)
    squares = {await each.evaluate(STYLE, "backgroundColor") for each in await page.locator(".squares > a").all()}
    assert len(squares | {await page.locator("body").evaluate(STYLE, "backgroundColor")}) == 3
    for of in ("header nav a", ".count:nth-last-child(-n + 2)"):
        assert len({await each.evaluate(STYLE, "borderBottomColor") for each in await page.locator(of).all()}) == 2


async def test_change_and_alt_leave_the_way_of_the_keyboard(fleet: Fleet, address: str, page: Page) -> None:
    many(fleet, 200)
    await page.goto(address)
    square = page.locator("#k-kyma-00000")
    await square.focus()
    fleet.put("kyma-00000", "Error", "no nodes")
    await expect(square).to_have_class(re.compile("changed"))
    await expect(page.locator(".squares > a[tabindex='0']")).to_have_count(1)
    await page.keyboard.press("Alt+ArrowRight")
    await expect(square).to_be_focused()


async def test_link_of_another_site_leads_a_signed_in_user_to_its_page(
    fleet: Fleet, address: str, browser: Browser
) -> None:
    fleet.put("demo")
    page = await browser.new_page()
    own = address.replace("127.0.0.1", "localhost")
    await page.goto(own)
    await page.get_by_label("Token").fill(TOKEN)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
    link = f'<a href="{own}/kymas/demo?a=b">demo fails</a>'
    await page.route("http://chat.example/", lambda route: route.fulfill(body=link, content_type="text/html"))
    await page.goto("http://chat.example/")
    await page.get_by_role("link").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("demo")
