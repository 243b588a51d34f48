"""The Manifest controller on a Manager, with a simulated control plane and a cluster of any kind as the SKR."""

from collections.abc import AsyncIterator, Hashable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

from kube_runtime import (
    Client,
    Controller,
    Manager,
    ObjectKey,
    Resource,
    Result,
)
from kube_simulation import Simulation
from lifecycle_manager.contract.resources import MANIFESTS
from lifecycle_manager.contract.signals import ReadScope
from lifecycle_manager.module_catalog import Offer, Offers
from lifecycle_manager.module_installation import Logins, ManifestSettings, setup
from lifecycle_manager.module_installation.snapshot import ManifestState
from lifecycle_manager.oci import Blobs, ObjectStore, Registries
from lifecycle_manager.process.crd_installation import apply_crds
from lifecycle_manager.skr import AccessSecretMissing, Connections
from lifecycle_manager_api import Condition, Manifest, find, names
from tests.modules import Document, as_text
from tests.waiting import eventually
from tests.world import NAMESPACE, OPTIONS, PERMISSIVE, EventLog

Propagation = Literal["Background", "Foreground", "Orphan"]
KEY = ObjectKey(names.KCP_NAMESPACE, "demo-garden")


@dataclass(eq=False)
class Clusters:
    """A control plane and one SKR. `access` is what keeps the Lifecycle Manager from the SKR, None for nothing."""

    kcp: Client
    skr: Client
    access: Exception | None = field(default=None, kw_only=True)
    manager: Manager = field(init=False)
    events: EventLog = field(init=False)

    def __post_init__(self) -> None:
        self.events = EventLog(self.kcp)

    @asynccontextmanager
    async def to(self, _kyma: str) -> AsyncIterator[Client]:
        """Lend the client of the SKR, as Connections do."""
        if self.access is not None:
            raise self.access
        yield self.skr

    def have_access(self, _kyma: str) -> bool:
        """Tell whether there is an access Secret, as Connections do."""
        return not isinstance(self.access, AccessSecretMissing)

    async def see(self, resource: Resource[Any], namespace: str | None = KEY.namespace) -> None:
        """Have the informer of a kind see what there is."""

        async def seen() -> bool:
            stored = {resource.version_of(each) for each in (await self.kcp.list(resource, namespace)).items}
            informer = self.manager.informer(resource, namespace=namespace)
            return stored == {resource.version_of(each) for each in informer.cache.list()}

        await eventually(seen, what="the informer is up to date", every=0.002)


@dataclass(eq=False)
class World(Clusters):
    """What a test does and sees with Manifests."""

    folder: Path
    templates: list[Any] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    registries: Registries = field(default_factory=Registries)
    namespace: str = names.SKR_NAMESPACE
    store: ObjectStore = field(init=False)
    controller: Controller[ObjectKey, ManifestState] = field(init=False)
    running: AsyncExitStack = field(default_factory=AsyncExitStack, init=False)

    async def __aenter__(self) -> "World":
        await self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.running.aclose()

    async def restart(self) -> None:
        """Replace the process by one that knows nothing."""
        await self.running.aclose()
        await self._start()

    async def _start(self) -> None:
        self.manager = Manager(self.kcp, events=self.events)
        self.store = ObjectStore(self.registries, self._fetch, Blobs(self.folder))
        offers = cast("Offers", SimpleNamespace(current=lambda: Offer.of(self.templates, ())))
        connections, settings = cast("Connections", self), ManifestSettings(300.0, namespace=self.namespace)
        self.controller = setup(self.manager, connections, offers, self.store, Logins(self.kcp), settings)
        await self.running.enter_async_context(self.manager.background())
        await self.manager.wait_synced()

    async def _fetch(self, link: str) -> str:
        return self.texts[link]

    async def want(self, objects: Iterable[Document], key: ObjectKey = KEY, **spec: Any) -> None:
        """Write the Manifest so that it names these objects."""
        await self.want_text(as_text(objects), key, **spec)

    async def want_text(self, text: str, key: ObjectKey = KEY, **spec: Any) -> None:
        """Write the Manifest so that it names the objects in this text."""
        link = f"https://example.com/{len(self.texts)}.yaml"
        self.texts[link] = text
        module = key.name.removeprefix("demo-")
        labels = {names.KYMA_NAME: "demo", names.MODULE_NAME: module, names.MANAGED_BY: names.LIFECYCLE_MANAGER}
        document = {
            "metadata": {"name": key.name, "namespace": key.namespace, "labels": labels},
            "spec": {"install": {"name": "raw-manifest", "source": {"url": link}}, "remote": True, **spec},
        }
        await self.kcp.apply(MANIFESTS, key.name, document, key.namespace, field_manager="test")

    async def change(self, patch: Document, key: ObjectKey = KEY) -> None:
        """Change the Manifest."""
        await self.kcp.merge_patch(MANIFESTS, key.name, patch, key.namespace)

    async def delete(self, propagation: Propagation = "Background", key: ObjectKey = KEY) -> None:
        """Delete the Manifest."""
        await self.kcp.delete(MANIFESTS, key.name, key.namespace, propagation=propagation)

    async def reconcile(self, key: ObjectKey = KEY, *causes: Hashable) -> Result:
        """Have the informer see what there is, and reconcile a key with these causes and those in the queue."""
        await self.see(MANIFESTS)
        return await self.controller.reconcile_now(key, *self.controller.waiting_causes(key), *causes)

    def is_enqueued(self, key: ObjectKey) -> bool:
        """Tell whether a Manifest is to be read completely because of what another one did."""
        return ReadScope.EVERYTHING in self.controller.waiting_causes(key)

    async def reconcile_until(self, state: tuple[str, str], key: ObjectKey = KEY) -> None:
        """Reconcile until the Manifest has a state, and why: what a server does meanwhile takes its time."""

        async def reached() -> bool:
            await self.reconcile(key)
            return await self.state(key) == state

        await eventually(reached, within=60, what=f"{key.name} is {state}")

    async def reconcile_until_gone(self, key: ObjectKey = KEY) -> None:
        """Reconcile until there is no Manifest any more."""

        async def gone() -> bool:
            await self.reconcile(key)
            return await self.manifest(key) is None

        await eventually(gone, within=60, what=f"{key.name} is gone")

    async def manifest(self, key: ObjectKey = KEY) -> Manifest | None:
        """Return the Manifest as it is stored."""
        return next((each for each in await self._stored() if each.metadata.name == key.name), None)

    async def _stored(self) -> Sequence[Manifest]:
        return (await self.kcp.list(MANIFESTS, KEY.namespace)).items

    async def condition(self, kind: str = "Ready", key: ObjectKey = KEY) -> Condition:
        """Return a condition of the Manifest."""
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


async def simulated_client(simulation: Simulation, name: str) -> Client:
    """Return a client of a simulated cluster, with the namespace that modules live in."""
    cluster = simulation.cluster(name)
    for namespace in (names.KCP_NAMESPACE, names.SKR_NAMESPACE):
        cluster.create({**NAMESPACE, "metadata": {"name": namespace}})
    return await Client.from_kubeconfig(cluster.kubeconfig, options=OPTIONS, policy=PERMISSIVE)


async def simulated_control_plane(simulation: Simulation) -> Client:
    """Return a client of a simulated control plane."""
    client = await simulated_client(simulation, "kcp")
    await apply_crds(client)
    return client
