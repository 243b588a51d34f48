"""The way to a user cluster: its access Secret, its loss, and the end of a Kyma whose cluster is gone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import pytest

from kyma_fleet.identities import create_identity
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS, SECRETS
from lifecycle_manager_api import State, names
from tests.e2e.upstream.modules import OLD, Module
from tests.e2e.upstream.product import KCP, KYMA, SKR, Product
from tests.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from tests.waiting import eventually

RIGHTS = {
    KCP: {
        "kymas": "list watch patch",
        "kymas/status": "patch",
        "manifests": "list watch create patch delete",
        "manifests/status": "patch",
        "moduleconfigs": "create patch delete",
        "moduleconfigs/status": "patch",
        "syncresources": "patch delete",
        "syncresources/status": "patch",
        "watchers": "list watch patch",
        "watchers/status": "patch",
        "moduletemplates": "list watch patch",
        "moduletemplates/status": "patch",
        "modulereleasemetas": "list watch patch",
        "modulepolicies": "list watch",
        "modulerollouts": "list watch create delete",
        "modulerollouts/status": "patch",
        "rolloutstrategies": "list watch",
        "modules": "manage",
        "events": "create patch list",
        "leases": "get list watch patch",
        "secrets": "get list watch create patch",
        "namespaces": "get",
    },
    names.KCP_LEASE_NAMESPACE: {
        "leases": "list watch create update delete",
        "syncresources": "create",
        "namespaces": "get",
    },
    "": {
        "moduleconfigs": "list watch",
        "syncresources": "list watch",
        "customresourcedefinitions": "list watch",
        "namespaces": "list watch",
        "validatingwebhookconfigurations": "create get patch",
        "validatingadmissionpolicies": "list watch",
        "validatingadmissionpolicybindings": "list watch",
        "tokenreviews": "create",
        "subjectaccessreviews": "create",
    },
}
"""The rights in the control plane, by namespace, "" for all; a change of them is a change of this list."""
OF_UPSTREAM = {
    "kymas": "get list patch update watch",
    "kymas/status": "get patch update watch",
    "manifests": "create delete deletecollection get list patch update watch",
    "manifests/status": "get patch update",
    "watchers": "get list patch update watch",
    "watchers/status": "get patch update",
    "moduletemplates": "get list patch update watch",
    "modulereleasemetas": "get list watch update",
    "events": "create get list patch watch",
    "leases": "get list watch create update patch delete",
    "secrets": "create delete get list update watch",
    "customresourcedefinitions": "get list watch",
}
"""What upstream's test expects of its Lifecycle Manager, of resources that this one accesses too."""
BEYOND_UPSTREAM = {
    *("moduleconfigs", "moduleconfigs/status", "syncresources", "syncresources/status", "modules", "modulepolicies"),
    *("modulerollouts", "modulerollouts/status", "rolloutstrategies", "moduletemplates/status", "namespaces"),
    *("validatingwebhookconfigurations", "validatingadmissionpolicies", "validatingadmissionpolicybindings"),
    *("tokenreviews", "subjectaccessreviews"),
}
"""Resources that upstream's Lifecycle Manager does not access, or does not have."""
ADMIN = {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}}


@asynccontextmanager
async def installed(world: Product, module: Module) -> AsyncIterator[Module]:
    """Have a module installed, whose removal is awaited at the end."""
    async with world.offered(module, OLD, regular=OLD):
        await world.enable(module)
        await world.installed(module)
        yield module


async def test_skr_connection_lost(world: Product) -> None:
    async with installed(world, Module(name="lost")) as module:
        async with world.link.cut():
            await world.module_is(module, State.ERROR)

            async def is_error() -> bool:
                return (await world.kyma()).status.state is State.ERROR

            await eventually(is_error, what="the Kyma is an Error")
        await world.installed(module)


async def test_misconfigured_kyma_secret(world: Product) -> None:
    async with world.offered(Module(name="late"), OLD, regular=OLD) as module:
        await world.delete_access()
        await world.write_access("invalid")
        try:
            await world.enable(module)

            async def is_refused() -> bool:
                condition = await world.condition("SKRReachable")
                return condition is not None and condition.reason == "AccessSecretUnusable"

            await eventually(is_refused, what="the Kyma says that its Secret is unusable")
            assert await world.manifest(module) is None
        finally:
            await world.delete_access()
            await world.write_access(world.access)
        await world.manifest_is(module, State.READY)
        await world.has_default_cr(module)


async def test_skr_secret_rotation(world: Product) -> None:
    """The identity of Lifecycle Manager in the cluster loses its rights; another Secret gives access again."""
    kubeconfig = await create_identity(
        world.skr, world.environment.skr_kubeconfig, name="test-skr-admin", namespace="default", roles=()
    )
    account = {"kind": "ServiceAccount", "name": "test-skr-admin", "namespace": "default"}
    binding = {"metadata": {"name": "test-skr-admin"}, **ADMIN, "subjects": [account]}
    await world.skr.create(CLUSTER_ROLE_BINDINGS, binding, field_manager="test")
    await world.write_access(kubeconfig)
    async with installed(world, Module(name="rotated")) as module:
        await world.skr.delete(CLUSTER_ROLE_BINDINGS, "test-skr-admin")
        try:
            await world.manifest_is(module, State.ERROR)

            async def is_error() -> bool:
                return (await world.kyma()).status.state is State.ERROR

            await eventually(is_error, what="the Kyma is an Error")
        finally:
            await world.delete_access()
            await world.write_access(world.access)
        await world.installed(module)
        await world.manifest_is(module, State.READY)


async def test_rbac_privileges(world: Product) -> None:
    """Lifecycle Manager has these rights in the control plane, and to resources of upstream no more than upstream's."""
    for namespace, rights in RIGHTS.items():
        granted = await granted_in(world, namespace)
        assert granted == {resource: {*verbs.split()} for resource, verbs in rights.items()}
        assert granted.keys() - OF_UPSTREAM.keys() <= BEYOND_UPSTREAM
        for resource in granted.keys() & OF_UPSTREAM.keys():
            theirs = {*OF_UPSTREAM[resource].split()}
            assert granted[resource] <= theirs | ({"patch"} if "update" in theirs else set()), resource


async def granted_in(world: Product, namespace: str) -> dict[str, set[str]]:
    """Return the verbs of Lifecycle Manager by resource, in a namespace or, without one, in all."""
    bindings, roles = (ROLE_BINDINGS, ROLES) if namespace else (CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES)
    granted: dict[str, set[str]] = {}
    for binding in (await world.kcp.list(bindings, namespace or None)).items:
        if "lifecycle-manager" in {each.get("name") for each in binding.get("subjects") or ()}:
            for rule in (await world.kcp.get(roles, binding["roleRef"]["name"], namespace or None))["rules"]:
                for resource in rule["resources"]:
                    granted.setdefault(resource, set()).update(rule["verbs"])
    return granted


async def abandoned(world: Product, module: Module, propagation: Literal["Background", "Foreground"]) -> None:
    """Delete the Kyma of a cluster that is gone; when its access Secret is deleted too, the Kyma goes."""
    await world.kcp.delete(KYMAS, KYMA, KCP, propagation=propagation)

    async def is_deleting() -> bool:
        kyma = await world.kyma()
        return kyma.metadata.being_deleted and kyma.status.state is State.DELETING

    try:
        await eventually(is_deleting, what="the Kyma is being deleted")
        async with world.link.cut():
            assert (await world.kyma()).status.state is State.DELETING
            await world.delete_access()
            await world.until_lacks(MANIFESTS, f"{KYMA}-{module.name}", KCP, of=world.kcp)
            await world.until_lacks(KYMAS, KYMA, KCP, of=world.kcp)
            await world.until_lacks(SECRETS, f"{KYMA}-webhook-tls", KCP, of=world.kcp)
    finally:  # the other scenarios need it
        await restored(world, module)


async def restored(world: Product, module: Module) -> None:
    """Write the Kyma again, with the cluster that has what the former one left."""
    world.chosen.clear()
    await world.release_held(module)
    await world.until_lacks(KYMAS, KYMA, KCP, of=world.kcp)
    await world.skr.merge_patch(KYMAS, names.DEFAULT_KYMA_NAME, {"spec": {"modules": []}}, SKR, field_manager="user")
    await world.write_kyma()
    await world.kyma_is(State.READY)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_kyma_deprovision(world: Product, propagation: Literal["Background", "Foreground"]) -> None:
    async with installed(world, Module(name=f"left-{propagation.lower()}")) as module:
        await world.hold(module)
        await world.disable(module)
        await world.has_default_cr(module, "Deleting")
        await world.manifest_is(module, State.DELETING)
        await abandoned(world, module, propagation)


async def test_module_without_default_cr(world: Product) -> None:
    async with installed(world, Module(name="bare", has_default=False)) as module:
        assert await world.default_cr(module) is None
        manifest = await world.manifest(module)
        assert manifest is not None
        finalizers = {"finalizers": [*manifest.metadata.finalizers, "example.com/blocking"]}
        await world.kcp.merge_patch(MANIFESTS, manifest.metadata.name, {"metadata": finalizers}, KCP)
        await world.disable(module)

        async def is_being_deleted() -> bool:
            found = await world.manifest(module)
            return found is not None and found.metadata.being_deleted

        await eventually(is_being_deleted)
        await abandoned(world, module, "Background")
