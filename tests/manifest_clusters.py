"""The Manifest controller on a Manager, with a simulated control plane and a cluster of any kind as the SKR."""

import hashlib
from collections.abc import Hashable, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal, cast

from kube_runtime import SYSTEM_CLOCK, Clock, KindUnknown, Manager, ObjectKey, Result
from kyma_oci import Registries
from lifecycle_manager.contract.resources import MANIFESTS
from lifecycle_manager.contract.signals import ReadScope
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.module_installation import Logins, ManifestSettings, setup
from lifecycle_manager.module_sources.store import ObjectStore
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager_api import Condition, Manifest, find, names
from tests.clusters import Clusters
from tests.modules import Document, as_text
from tests.waiting import eventually

Propagation = Literal["Background", "Foreground", "Orphan"]
KEY = ObjectKey(names.KCP_NAMESPACE, "demo-garden")


@dataclass(eq=False)
class Modules(Clusters):
    templates: list[Any] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    registries: Registries = field(default_factory=Registries)
    namespace: str = names.SKR_NAMESPACE
    clock: Clock = SYSTEM_CLOCK
    store: ObjectStore = field(init=False)
    running: AsyncExitStack = field(default_factory=AsyncExitStack, init=False)

    async def __aenter__(self) -> "Modules":
        await self.running.enter_async_context(self.process())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.running.aclose()

    async def restart(self) -> None:
        """Replace the process by one that knows nothing."""
        await self.running.aclose()
        await self.running.enter_async_context(self.process())

    def start(self) -> None:
        self.manager = Manager(self.kcp, events=self.events, clock=self.clock)
        self.store = ObjectStore(self.registries, self._fetch)
        offers = cast("Offers", SimpleNamespace(current=lambda: Offer.of(self.templates, ())))
        connections, settings = (
            cast("Connections", self),
            ManifestSettings(interval_seconds=300.0, namespace=self.namespace),
        )
        self.controller = setup(self.manager, connections, offers, self.store, Logins(self.kcp), settings)

    async def _fetch(self, link: str) -> str:
        return self.texts[link]

    async def want(self, objects: Iterable[Document], key: ObjectKey = KEY, **spec: Any) -> None:
        """Write the Manifest so that it names these objects."""
        await self.want_text(as_text(objects), key, **spec)

    async def want_text(self, text: str, key: ObjectKey = KEY, **spec: Any) -> None:
        """Write the Manifest so that it names the objects in this text."""
        link = f"https://example.com/{len(self.texts)}.yaml"
        self.texts[link] = text
        source = {"url": link, "digest": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"}
        module = key.name.removeprefix("demo-")
        labels = {names.KYMA_NAME: "demo", names.MODULE_NAME: module, names.MANAGED_BY: names.LIFECYCLE_MANAGER}
        document = {
            "metadata": {"name": key.name, "namespace": key.namespace, "labels": labels},
            "spec": {
                "install": {"name": "raw-manifest", "source": source},
                "remote": True,
                **spec,
            },
        }
        await self.kcp.apply(MANIFESTS, key.name, document, key.namespace, field_manager="test")

    async def change(self, patch: Document, key: ObjectKey = KEY) -> None:
        await self.kcp.merge_patch(MANIFESTS, key.name, patch, key.namespace)

    async def delete(self, propagation: Propagation = "Background", key: ObjectKey = KEY) -> None:
        await self.kcp.delete(MANIFESTS, key.name, key.namespace, propagation=propagation)

    async def reconcile(self, key: ObjectKey = KEY, *causes: Hashable) -> Result:
        """Have the informer see what there is, and reconcile a key with these causes and those in the queue."""
        await self.see(MANIFESTS)
        return await self.controller.reconcile_now(key, *self.controller.waiting_causes(key), *causes)

    async def try_reconcile(self, key: ObjectKey = KEY) -> None:
        """Reconcile a key; where a server lists a kind whose definition it has just deleted, in vain."""
        with suppress(KindUnknown):
            await self.reconcile(key)

    def is_enqueued(self, key: ObjectKey) -> bool:
        """Tell whether a Manifest is to be read completely because of what another one did."""
        return ReadScope.EVERYTHING in self.controller.waiting_causes(key)

    async def reconcile_until(self, state: tuple[str, str], key: ObjectKey = KEY) -> None:
        """Reconcile until the Manifest has a state, and why: what a server does meanwhile takes its time."""

        async def reached() -> bool:
            await self.try_reconcile(key)
            return await self.state(key) == state

        await eventually(reached, within=60, what=f"{key.name} is {state}")

    async def reconcile_until_gone(self, key: ObjectKey = KEY) -> None:
        """Reconcile until there is no Manifest any more."""

        async def gone() -> bool:
            await self.try_reconcile(key)
            return await self.manifest(key) is None

        await eventually(gone, within=60, what=f"{key.name} is gone")

    async def manifest(self, key: ObjectKey = KEY) -> Manifest | None:
        return next((each for each in await self._stored() if each.metadata.name == key.name), None)

    async def _stored(self) -> Sequence[Manifest]:
        return (await self.kcp.list(MANIFESTS, KEY.namespace)).items

    async def condition(self, kind: str = "Ready", key: ObjectKey = KEY) -> Condition:
        manifest = await self.manifest(key)
        assert manifest is not None
        condition = find(manifest.status.conditions, kind)
        assert condition is not None
        return condition

    async def state(self, key: ObjectKey = KEY) -> tuple[str, str]:
        """Return the state of the Manifest, and why."""
        manifest = await self.manifest(key)
        assert manifest is not None
        return str(manifest.status.state), (await self.condition(key=key)).reason
