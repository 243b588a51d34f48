"""One Manifest, its reconciler, a simulated control plane, and a cluster of any kind to install the module in."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

from kube_runtime import Client, ClientOptions, EventRecorder, Informer, KubeconfigPolicy, ObjectKey, Result
from kube_simulation import Simulation
from lifecycle_manager.crd_installation import apply_crds
from lifecycle_manager.module_catalog import Offer, Offers
from lifecycle_manager.module_installation import Blobs, Logins, ManifestReconciler, ObjectStore, Registries
from lifecycle_manager.resources import MANIFESTS
from lifecycle_manager.skr import Connections
from lifecycle_manager_api import Condition, Manifest, find, names
from tests.modules import Document, as_text
from tests.waiting import eventually

Propagation = Literal["Background", "Foreground", "Orphan"]
KEY = ObjectKey(names.KCP_NAMESPACE, "demo-garden")
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace"}


@dataclass(eq=False)
class World:
    """What a test does and sees. `access` is what keeps the Lifecycle Manager from the cluster, None for nothing."""

    kcp: Client
    skr: Client
    folder: Path
    access: Exception | None = None
    templates: list[Any] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    events: list[tuple[str, str]] = field(default_factory=list)
    held: Manifest | None = None
    others: dict[ObjectKey, Manifest | None] = field(default_factory=dict)
    registries: Registries = field(default_factory=Registries)
    namespace: str = names.SKR_NAMESPACE
    reconciler: ManifestReconciler = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin again with a reconciler that knows nothing."""
        cache = SimpleNamespace(get=self._cached, by_index=lambda _index, _kyma: self._all_cached())
        self.reconciler = ManifestReconciler(
            self.kcp,
            cast("Connections", self),
            cast("Informer[Manifest]", SimpleNamespace(cache=cache)),
            cast("Offers", SimpleNamespace(current=lambda: Offer.of(self.templates, ()))),
            ObjectStore(self.registries, self._fetch, Blobs(self.folder)),
            Logins(self.kcp),
            cast("EventRecorder", self),
            namespace=self.namespace,
        )

    @asynccontextmanager
    async def to(self, _kyma: str) -> AsyncIterator[Client]:
        """Lend the client of the cluster, as Connections do."""
        if self.access is not None:
            raise self.access
        yield self.skr

    def record(self, _resource: Any, _item: Any, reason: str, note: str, **_: Any) -> None:
        """Take an Event."""
        self.events.append((reason, note))

    async def _fetch(self, link: str) -> str:
        return self.texts[link]

    def _cached(self, key: ObjectKey) -> Manifest | None:
        return self.held if key == KEY else self.others.get(key)

    def _all_cached(self) -> list[Manifest]:
        return [each for each in (self.held, *self.others.values()) if each is not None]

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

    async def reconcile(self, key: ObjectKey = KEY) -> Result:
        """Have the informer see what there is, and reconcile it."""
        await self.see()
        return await self.reconciler.reconcile(key)

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

    async def see(self) -> None:
        """Have the informer see what there is."""
        stored = {ObjectKey(each.metadata.namespace, each.metadata.name): each for each in await self._stored()}
        self.held = stored.pop(KEY, None)
        self.others = dict(stored)

    async def manifest(self, key: ObjectKey = KEY) -> Manifest | None:
        """Return the Manifest as it is stored."""
        return next((each for each in await self._stored() if each.metadata.name == key.name), None)

    async def _stored(self) -> Sequence[Manifest]:
        return (await self.kcp.list(MANIFESTS, KEY.namespace)).items

    async def said(self, kind: str = "Ready", key: ObjectKey = KEY) -> Condition:
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
        return str(manifest.status.state), (await self.said(key=key)).reason


async def simulated_client(simulation: Simulation, name: str) -> Client:
    """Return a client of a simulated cluster, with the namespace that modules live in."""
    cluster = simulation.cluster(name)
    for namespace in (names.KCP_NAMESPACE, names.SKR_NAMESPACE):
        cluster.create({**NAMESPACE, "metadata": {"name": namespace}})
    options = ClientOptions(qps=0, timeout_seconds=60, attempts=1)
    policy = KubeconfigPolicy(allow_insecure=True)
    return await Client.from_kubeconfig(cluster.kubeconfig, options=options, policy=policy)


async def simulated_control_plane(simulation: Simulation) -> Client:
    """Return a client of a simulated control plane."""
    client = await simulated_client(simulation, "kcp")
    await apply_crds(client)
    return client
