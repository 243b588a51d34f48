"""A change that comes while a page is put together: the page names the state that it shows, and is loaded anew."""

import httpx
import pytest
from msgspec import structs

from kube_runtime import Resource
from kyma_fleet.explanation.facts import Occurrence
from kyma_fleet_page.access import MayList
from kyma_fleet_page.app import create_app
from lifecycle_manager_api import Kyma
from tests import builders
from tests.page_sources import AnyRight, MadeUp

ADDRESS = "https://localhost"
TOKEN = {"Authorization": "Bearer good"}


class Fleet(MadeUp):
    """A cluster that fails while the API server is asked for something."""

    def __init__(self) -> None:
        self.present = {"a": kyma("1", "Ready")}
        super().__init__(self.present)

    def change(self) -> None:
        self.present["a"] = kyma("2", "Error")

    async def events(self, name: str, may_list: MayList) -> tuple[Occurrence, ...]:
        self.change()
        return ()


class SlowRights(AnyRight):
    def __init__(self, fleet: Fleet) -> None:
        self.fleet, self.others = fleet, httpx.AsyncClient()

    async def may_list(self, token: str, resource: Resource[object], namespace: str) -> bool:
        if token == "good":  # and another page is loaded meanwhile
            self.fleet.change()
            await self.others.get("/squares", headers={"Authorization": "Bearer other"})
        return True


def kyma(version: str, state: str) -> Kyma:
    status = {"state": state, "modules": [builders.module_status("api", "1.0.0", state)]}
    made = builders.kyma("a", status=status)
    return structs.replace(made, metadata=structs.replace(made.metadata, resource_version=version))


@pytest.mark.parametrize("path", ["/", "/modules/api"])
async def test_version_of_a_page_is_that_of_the_fleet_it_shows(path: str) -> None:
    fleet = Fleet()
    access = SlowRights(fleet)
    app = create_app(fleet, access)
    transport = httpx.ASGITransport(app)
    access.others = httpx.AsyncClient(transport=transport, base_url=ADDRESS)
    async with httpx.AsyncClient(transport=transport, base_url=ADDRESS, headers=TOKEN) as browser:
        shown = version_in((await browser.get(path)).text)
        after = version_in((await browser.get("/modules", headers={"Authorization": "Bearer other"})).text)
    assert int(after) == int(shown) + 1


async def test_revision_of_a_page_is_that_of_the_cluster_it_shows() -> None:
    transport = httpx.ASGITransport(create_app(Fleet(), AnyRight()))
    async with httpx.AsyncClient(transport=transport, base_url=ADDRESS, headers=TOKEN) as browser:
        before, after = [version_in((await browser.get("/kymas/a")).text) for _ in range(2)]
    assert before != after


def version_in(page: str) -> str:
    return page.partition("shown=")[2].partition('"')[0].partition("&")[0]
