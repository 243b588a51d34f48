"""Modules whose objects are behind a link: the content that was seen first is installed, and no other."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from kube_runtime import ObjectKey
from kyma_oci import DescriptorNotFound
from lifecycle_manager import module_catalog
from lifecycle_manager.contract.resources import MODULE_TEMPLATES
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.module_catalog.manifests import wanted_spec
from lifecycle_manager.module_catalog.module_kinds import ModuleKinds, TemplateUnreadable
from lifecycle_manager.module_catalog.templates import (
    LINK_CHANGED,
    LINK_PINNED,
    LINK_UNREADABLE,
    RECHECK_SECONDS,
    RETRY_SECONDS,
)
from lifecycle_manager.module_catalog.verification import ComponentRegistry
from lifecycle_manager.module_sources.downloads import DownloadFailed
from lifecycle_manager_api import Condition, ModuleResource, ModuleTemplate, find
from tests import builders
from tests.world import KCP, World, open_world

LINK = "https://example.com/module.yaml"
ROSE, THORN = (f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: a}}\n" for kind in ("Rose", "Thorn"))
KEY = ObjectKey(KCP, "cloud-resources-0.1.0")


def linked(**fields: Any) -> ModuleTemplate:
    made = builders.template(**fields)
    resources = (ModuleResource(name="rawManifest", link=LINK),)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, resources=resources))


@dataclass
class Catalog:
    world: World
    offers: Offers
    texts: dict[str, str] = field(default_factory=lambda: {LINK: ROSE})
    key: ObjectKey = KEY

    async def fetch(self, link: str) -> str:
        if link not in self.texts:
            raise DownloadFailed(f"{link} is not there")
        return self.texts[link]

    async def read(self) -> float | None:
        return (await self.world.turn("module-template", self.key)).requeue_after

    async def template(self) -> ModuleTemplate:
        return await self.world.kcp.get(MODULE_TEMPLATES, self.key.name, KCP)

    async def pinned(self) -> str:
        pin = (await self.template()).status.pinned_link
        return pin.digest if pin is not None else ""

    async def condition(self) -> Condition:
        found = find((await self.template()).status.conditions, LINK_PINNED)
        assert found is not None
        return found

    async def source(self) -> dict[str, str]:
        """Return the source that Manifests of the template get. Raises DescriptorNotFound."""
        await self.world.sync_caches()
        offer = self.offers.current()
        (template,) = offer.templates.values()
        spec = wanted_spec(template, offer.component(template), default_cr=msgspec.Raw(b"null"), policy="Ignore")
        assert spec is not None
        return msgspec.json.decode(spec.install.source, type=dict[str, str])


@asynccontextmanager
async def catalog(offered: ModuleTemplate) -> AsyncIterator[Catalog]:
    async with open_world() as world:

        async def fetch(link: str) -> str:
            return await it.fetch(link)

        it = Catalog(world, module_catalog.setup(world.manager, cast("ComponentRegistry", None), fetch))
        await world.offer(offered)
        yield it


def digest_of(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


async def test_content_of_a_link_is_installed_by_the_digest_that_was_seen_first() -> None:
    async with catalog(linked()) as it:
        with pytest.raises(DescriptorNotFound, match="was not read yet"):
            await it.source()
        assert await it.read() == RECHECK_SECONDS
        first = digest_of(ROSE)
        assert await it.source() == {"url": LINK, "digest": first}
        assert (await it.condition()).status == "True"
        it.texts[LINK] = THORN
        assert await it.read() == RECHECK_SECONDS
        assert await it.source() == {"url": LINK, "digest": first}
        condition = await it.condition()
        assert (condition.status, condition.reason) == ("False", LINK_CHANGED)
        assert digest_of(THORN) in condition.message


async def test_another_version_may_have_another_content() -> None:
    async with catalog(linked(channel="fast")) as it:
        it.key = ObjectKey(KCP, "cloud-resources-fast")
        await it.read()
        it.texts[LINK] = THORN
        changed = {"spec": {"descriptor": builders.descriptor("cloud-resources", "0.2.0", installs=False)}}
        await it.world.kcp.merge_patch(MODULE_TEMPLATES, it.key.name, changed, KCP)
        await it.read()
        assert (await it.source())["digest"] == await it.pinned() == digest_of(THORN)
        assert (await it.condition()).status == "True"


async def test_link_that_can_not_be_read_is_reported_and_changes_nothing() -> None:
    async with catalog(linked()) as it:
        text = it.texts.pop(LINK)
        assert await it.read() == RETRY_SECONDS
        assert (await it.condition()).reason == LINK_UNREADABLE
        assert await it.pinned() == ""
        it.texts[LINK] = text
        await it.read()
        del it.texts[LINK]
        await it.read()
        assert (await it.source())["digest"] == await it.pinned() == digest_of(text)


async def test_link_beside_a_layer_is_not_read() -> None:
    async with catalog(linked(installs=True)) as it:
        assert await it.read() is None
        assert await it.pinned() == ""
        assert "digest" not in await it.source()


async def test_kinds_of_module_crs_are_those_of_the_content_that_was_seen_first() -> None:
    async with catalog(linked(data=None)) as it:
        with pytest.raises(TemplateUnreadable, match="pinnedLink"):
            await ModuleKinds(it.fetch).of(await it.template())
        await it.read()
        assert await ModuleKinds(it.fetch).of(await it.template()) == ()
        it.texts[LINK] = THORN
        with pytest.raises(TemplateUnreadable, match="pinnedLink"):
            await ModuleKinds(it.fetch).of(await it.template())


async def test_link_that_is_edited_while_it_is_read_is_not_pinned_to_the_former_content() -> None:
    async with catalog(linked()) as it:
        other = "https://example.com/other.yaml"
        it.texts[other] = THORN
        fetch = it.fetch

        async def fetch_slowly(link: str) -> str:
            text = await fetch(link)
            if link == LINK:
                edited = {"spec": {"resources": [{"name": "rawManifest", "link": other}]}}
                await it.world.kcp.merge_patch(MODULE_TEMPLATES, it.key.name, edited, KCP)
            return text

        it.fetch = fetch_slowly  # type: ignore[method-assign]
        await it.read()
        await it.read()
        assert await it.source() == {"url": other, "digest": digest_of(THORN)}
