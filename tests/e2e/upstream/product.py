"""The control plane and the user cluster that all scenarios share, and what operators and users do in them."""

import base64
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from kube_runtime import Client, KindUnknown, NotFound, NotServed, Resource, load_yaml
from kyma_demo import names as demo_names
from kyma_demo.environment import Environment
from kyma_demo.programs import Programs
from lifecycle_manager.contract.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    FIELD_MANAGER,
    KYMAS,
    MANIFESTS,
    MODULE_RELEASE_METAS,
    MODULE_TEMPLATES,
    SECRETS,
)
from lifecycle_manager_api import Condition, Kyma, KymaModuleStatus, Manifest, State, SyncedReference, find, names
from tests.e2e.upstream.link import Link
from tests.e2e.upstream.modules import NEW, OLD, Document, Module
from tests.e2e.upstream.runtime import WORKLOADS, Runtime
from tests.integration.lifecycle_manager.catalog_entries import put_in_catalog, remove_from_catalog
from tests.integration.lifecycle_manager.programs import Manager
from tests.registries import BlobServer
from tests.waiting import eventually

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
KYMA = "kyma-sample"
PULL_SECRET = "some-special-image-pull-secret"
GLOBAL_ACCOUNT = "dummy-global-account"


@dataclass(eq=False)
class Product:
    """Both clusters with clients of their administrators, and the programs."""

    environment: Environment
    programs: Programs
    layers: BlobServer
    link: Link
    runtime: Runtime
    manager: Manager
    chosen: dict[str, Document] = field(default_factory=dict)

    @property
    def kcp(self) -> Client:
        """The client of the control plane's administrator."""
        return self.environment.kcp

    @property
    def skr(self) -> Client:
        """The client of the user cluster's administrator."""
        return self.environment.skr

    @property
    def access(self) -> str:
        """The kubeconfig by which Lifecycle Manager accesses the user cluster."""
        text = self.environment.skr_kubeconfig.read_text()
        server = load_yaml(text)["clusters"][0]["cluster"]["server"]
        return text.replace(server, f"https://127.0.0.1:{self.link.port}")

    @asynccontextmanager
    async def offered(
        self,
        module: Module,
        *versions: str,
        spec: Document | None = None,
        labels: dict[str, str] | None = None,
        **channels: str,
    ) -> AsyncIterator[Module]:
        """Offer versions of a module until the block ends; then it is disabled and gone."""
        await self._offer(
            module, *(versions or (OLD, NEW)), spec=spec, labels=labels, **(channels or {"regular": OLD, "fast": NEW})
        )
        try:
            yield module
        except BaseException:
            await self.release_held(module)  # or the tests that follow would fail, too
            raise
        finally:
            await self._withdraw(module)

    async def _offer(
        self, module: Module, *versions: str, spec: Document | None, labels: dict[str, str] | None, **channels: str
    ) -> None:
        """Put versions of a module into the catalog, with labels, and a version into each channel."""
        self.runtime.modules[module.name] = module
        # A cluster in which the module was before: for a second, API servers read no objects of a kind that is new.
        crd = module.crd(versions[0])
        crd = {**crd, "metadata": {**crd["metadata"], "labels": {names.MANAGED_BY: names.LIFECYCLE_MANAGER}}}
        await self.skr.create(CUSTOM_RESOURCE_DEFINITIONS, crd, field_manager=FIELD_MANAGER)
        for document in module.templates(self.layers, *versions, labels=labels or {}):
            await put_in_catalog(self.kcp, document)
        await put_in_catalog(self.kcp, module.release(spec=spec, **channels))

    async def release(self, module: Module, spec: Document | None = None, **channels: str) -> None:
        """Put other versions into the channels of a module."""
        await put_in_catalog(self.kcp, module.release(spec=spec, **channels))

    async def release_held(self, module: Module) -> None:
        """Remove what keeps a module from going: finalizers of tests, and Module CRs of users."""
        manifest = await self.manifest(module)
        if manifest is not None:
            kept = [each for each in manifest.metadata.finalizers if not each.startswith("example.com/")]
            patch = {"metadata": {"finalizers": kept, "labels": {names.SKIP_RECONCILIATION: None}}}
            await self.kcp.merge_patch(MANIFESTS, manifest.metadata.name, patch, KCP, field_manager="operator")
        with suppress(NotFound, NotServed):
            for live in (await self.skr.list(module.samples())).items:
                place = live["metadata"]["name"], live["metadata"].get("namespace")
                await self.skr.merge_patch(module.samples(), place[0], {"metadata": {"finalizers": []}}, place[1])
                if place[0] != "sample":
                    await self.skr.delete(module.samples(), *place)

    async def _withdraw(self, module: Module) -> None:
        """Disable a module, wait until it is gone, and remove it from the catalog."""
        self.runtime.states.pop(module.name, None)
        if module.name in self.chosen:
            await self.disable(module)
        await self.until_gone(module)
        found = (await self.kcp.list(MODULE_TEMPLATES, KCP)).items
        for each in found:
            if each.spec.module_name == module.name:
                await self.kcp.delete(MODULE_TEMPLATES, each.metadata.name, KCP)
        await remove_from_catalog(self.kcp, module.release(regular=OLD))
        self.runtime.modules.pop(module.name, None)
        with suppress(NotFound, NotServed):  # gone with the module
            await self.skr.delete(CUSTOM_RESOURCE_DEFINITIONS, f"samples.{module.group}")

    async def enable(self, module: Module, channel: str = "", **more: Any) -> None:
        """Enable a module as a user, or change how it is enabled."""
        given = {"channel": channel} if channel else {}
        self.chosen[module.name] = {"name": module.name, "managed": True, **given, **more}
        await self._choose()

    async def skip_windows(self, *, skipped: bool) -> None:
        """Have upgrades not wait for maintenance windows, or wait again, as a user."""
        patch = {"spec": {"skipMaintenanceWindows": skipped}}
        await self.skr.merge_patch(KYMAS, names.DEFAULT_KYMA_NAME, patch, SKR, field_manager="user")

    async def disable(self, module: Module) -> None:
        self.chosen.pop(module.name, None)
        await self._choose()

    async def _choose(self) -> None:
        patch = {"spec": {"modules": list(self.chosen.values())}}
        await self.skr.merge_patch(KYMAS, names.DEFAULT_KYMA_NAME, patch, SKR, field_manager="user")

    async def kyma(self) -> Kyma:
        return await self.kcp.get(KYMAS, KYMA, KCP)

    async def users_kyma(self) -> Kyma:
        return await self.skr.get(KYMAS, names.DEFAULT_KYMA_NAME, SKR)

    async def condition(self, kind: str) -> Condition | None:
        return find((await self.kyma()).status.conditions, kind)

    async def module_status(self, module: Module) -> KymaModuleStatus | None:
        return next((each for each in (await self.kyma()).status.modules if each.name == module.name), None)

    async def manifest(self, module: Module) -> Manifest | None:
        selector = f"{names.MODULE_NAME}={module.name}"
        found = (await self.kcp.list(MANIFESTS, KCP, label_selector=selector)).items
        return found[0] if found else None

    async def synced(self, module: Module) -> list[Document]:
        """Return the objects of a module as they are in the user cluster."""
        manifest = await self.manifest(module)
        assert manifest is not None
        return [await self.skr.get(*await self.object_of(each)) for each in manifest.status.synced]

    async def object_of(self, synced: SyncedReference) -> tuple[Resource[Document], str, str | None]:
        """Return what an entry of a Manifest's status refers to."""
        version = f"{synced.group}/{synced.version}" if synced.group else synced.version
        return await self.skr.mapper.resource(version, synced.kind), synced.name, synced.namespace or None

    async def installed(self, module: Module, version: str = OLD) -> None:
        """Wait until a version of a module is ready, with the Kyma."""
        await self.module_is(module, State.READY, version=version)
        await self.kyma_is(State.READY)

    async def kyma_is(self, state: State, *, within: float = 60.0) -> None:
        """Wait until the Kyma has a state, in both clusters."""

        async def reached() -> bool:
            return state == (await self.kyma()).status.state == (await self.users_kyma()).status.state

        try:
            await eventually(reached, within=within, what=f"the Kyma is {state}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {(await self.kyma()).status}") from None

    async def module_is(self, module: Module, state: State, *, version: str = "") -> KymaModuleStatus:
        """Wait until the Kyma says that a module has a state; return what it says."""

        async def reached() -> KymaModuleStatus | None:
            found = await self.module_status(module)
            is_so = found is not None and found.state is state and version in {"", found.version}
            return found if is_so else None

        return await eventually(reached, what=f"{module.name} {version} is {state}")

    async def manifest_is(self, module: Module, *states: State) -> Manifest:
        """Wait until the Manifest of a module has one of these states."""

        async def reached() -> Manifest | None:
            found = await self.manifest(module)
            return found if found is not None and found.status.state in states else None

        return await eventually(reached, what=f"the Manifest of {module.name} is {states}")

    async def until_gone(self, module: Module) -> None:
        """Wait until the Manifest of a module is gone, and the Kyma no longer names it."""

        async def gone() -> bool:
            return await self.manifest(module) is None and await self.module_status(module) is None

        await eventually(gone, what=f"{module.name} is gone")

    async def workload(self, module: Module, version: str) -> Document | None:
        """Return what runs a version of a module, None where it does not exist."""
        with suppress(NotFound, NotServed):
            return await self.skr.get(WORKLOADS[module.workload], module.operator(version), SKR)
        return None

    async def runs(self, module: Module, version: str, *, but_not: str = "") -> None:
        """Wait until a version of a module runs, and another one does not."""

        async def running() -> bool:
            live = await self.workload(module, version)
            is_ready = live is not None and (live.get("status") or {}).get("readyReplicas") == 1
            return is_ready and (not but_not or await self.workload(module, but_not) is None)

        await eventually(running, what=f"{module.operator(version)} runs")

    async def watcher_environment(self) -> dict[str, str]:
        """Return the environment variables of the Watcher's Deployment."""
        deployment = await self.skr.get(WORKLOADS["Deployment"], "skr-webhook", SKR)
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        return {each["name"]: each["value"] for each in container["env"]}

    async def default_cr(self, module: Module, version: str = OLD) -> Document | None:
        """Return the default Module CR of a module, None where it does not exist."""
        with suppress(NotFound, NotServed):
            return await self.skr.get(module.samples(version), "sample", module.namespace)
        return None

    async def has_default_cr(self, module: Module, state: str = "") -> None:
        """Wait until the default Module CR exists, in a state."""

        async def exists() -> bool:
            found = await self.default_cr(module)
            return found is not None and state in {"", (found.get("status") or {}).get("state")}

        await eventually(exists, what=f"the Module CR of {module.name} is {state or 'there'}")

    async def hold(self, module: Module, *, name: str = "sample", held: bool = True) -> None:
        """Put a finalizer on a Module CR, or remove it, as its operator does."""
        patch = {"metadata": {"finalizers": ["example.com/blocked"] if held else []}}
        await self.skr.merge_patch(module.samples(), name, patch, module.namespace, field_manager="operator")

    async def until_lacks(self, resource: Resource[Any], name: str, namespace: str | None, *, of: Client) -> None:
        """Wait until an object does not exist."""

        async def gone() -> bool:
            try:
                await of.get(resource, name, namespace)
            except (NotFound, KindUnknown):
                return True
            return False

        await eventually(gone, what=f"{resource.kind} {name} is gone")

    async def catalog(self) -> set[str]:
        """Return the kinds and names of the catalog in the user cluster."""
        templates = (await self.skr.list(MODULE_TEMPLATES, SKR)).items
        releases = (await self.skr.list(MODULE_RELEASE_METAS, SKR)).items
        return {f"{each.KIND} {each.metadata.name}" for each in (*templates, *releases)}

    async def write_kyma(self) -> None:
        """Create the access Secret and the Kyma, as the environment broker does."""
        await self.write_access(self.access)
        await self.kcp.create(KYMAS, kyma_of_the_broker(), KCP, field_manager="broker")

    async def write_access(self, kubeconfig: str) -> None:
        secret = access_secret(kubeconfig)
        await self.kcp.apply(SECRETS, secret["metadata"]["name"], secret, KCP, field_manager="broker")

    async def delete_access(self) -> None:
        await self.kcp.delete(SECRETS, f"kubeconfig-{KYMA}", KCP)

    async def patch_kyma(self, patch: Document) -> None:
        await self.kcp.merge_patch(KYMAS, KYMA, patch, KCP, field_manager="broker")

    async def label_kyma(self, **labels: str | None) -> None:
        await self.patch_kyma({"metadata": {"labels": labels}})

    @asynccontextmanager
    async def labelled(self, label: str, value: str | None) -> AsyncGenerator[None, None]:
        """Have a label on the Kyma until the block ends, and then as before."""
        before = (await self.kyma()).metadata.labels.get(label)
        await self.label_kyma(**{label: value})
        try:
            yield
        finally:
            await self.label_kyma(**{label: before})

    async def skip(self, module: Module, *, skipped: bool = True) -> None:
        """Have the Manifest of a module skipped, or no longer."""
        manifest = await self.manifest(module)
        assert manifest is not None
        patch = {"metadata": {"labels": {names.SKIP_RECONCILIATION: "true" if skipped else None}}}
        await self.kcp.merge_patch(MANIFESTS, manifest.metadata.name, patch, KCP, field_manager="operator")

    async def sample(self, name: str, **labels: str) -> float | None:
        """Return the value of a metric with these labels, None where it has no such sample."""
        for text, value in (await self.manager.metrics()).items():
            if text.partition("{")[0] == name and all(f'{key}="{each}"' in text for key, each in labels.items()):
                return value
        return None

    async def measures(self, value: float | None, name: str, **labels: str) -> None:
        """Wait until a metric has a value."""

        async def has() -> bool:
            return await self.sample(name, **labels) == value

        await eventually(has, what=f"{name} {labels} is {value}")


def holds(wanted: set[str], read: Callable[[], Awaitable[set[str]]]) -> Callable[[], Awaitable[bool]]:
    """Return a condition: what is read has all of the wanted."""

    async def has() -> bool:
        return wanted <= await read()

    return has


def kyma_of_the_broker() -> Document:
    """Return the Kyma as the environment broker creates it."""
    labels = {
        names.RUNTIME_ID: demo_names.RUNTIME_ID,
        names.REGION: "europe",
        names.GLOBAL_ACCOUNT_ID: GLOBAL_ACCOUNT,
        names.SUBACCOUNT_ID: "dummy-sub-account",
    }
    metadata = {"name": KYMA, "labels": labels}
    spec = {"channel": "regular", "modules": []}
    return {"apiVersion": KYMAS.api_version, "kind": "Kyma", "metadata": metadata, "spec": spec}


def access_secret(kubeconfig: str) -> Document:
    """Return the access Secret of the cluster."""
    marks = {names.KYMA_NAME: KYMA, names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    metadata = {"name": f"kubeconfig-{KYMA}", "labels": marks}
    data = {"config": base64.b64encode(kubeconfig.encode()).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
