"""`klm status` and `klm explain` against a real API server, by somebody with the ClusterRole `klm-viewer` alone."""

from collections.abc import AsyncIterator

import pytest_asyncio

from kube_runtime import Client
from kube_runtime.leases.lease import LEASES
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager_api import names
from tests import builders
from tests.integration.fleet.conftest import Klm, put_kyma, written

KCP = names.KCP_NAMESPACE
HOSTILE = "\x1b[2Jno [bold]Secret"


@pytest_asyncio.fixture
async def broken(control_plane: Client) -> AsyncIterator[Client]:
    """A Kyma without access to its cluster, a release, and a replica that renewed its Lease long ago."""
    conditions = [builders.condition(kind, "AccessSecretMissing", HOSTILE) for kind in ("SKRReachable", "Ready")]
    module = builders.module_status("colours", template=None)
    status = {"state": "Error", "conditions": conditions, "observedGeneration": 1, "modules": [module]}
    await put_kyma(control_plane, "locked-out", status)
    lease = {
        "metadata": {"name": "lm-0", "labels": {"kube-runtime/group": names.LIFECYCLE_MANAGER}},
        "spec": {
            "holderIdentity": "lm-0",
            "leaseDurationSeconds": 10,
            "renewTime": "2026-11-01T00:00:00.000000Z",
        },
    }
    await control_plane.apply(LEASES, "lm-0", lease, names.KCP_LEASE_NAMESPACE, field_manager="test")
    async with written(
        control_plane, builders.template("colours", "1.0.0"), builders.release("colours", regular="1.0.0")
    ):
        yield control_plane
    await control_plane.delete(LEASES, "lm-0", names.KCP_LEASE_NAMESPACE)
    await control_plane.delete(KYMAS, "locked-out", KCP)


async def test_status_names_what_is_wrong_and_says_so_by_its_exit_code(broken: Client, viewer: Klm) -> None:
    result = await viewer("status")
    assert result.code == 1, result.errors
    assert "in state Error; 1 replica of Lifecycle Manager did not renew the Lease" in result.text
    assert "AccessSecretMissing: no [bold]Secret" in result.text
    assert "\x1b" not in result.text


async def test_explain_says_what_to_do_about_the_first_cause(broken: Client, viewer: Klm) -> None:
    result = await viewer("explain", "locked-out", "colours")
    assert result.code == 1, result.errors
    assert result.lines[0] == "locked-out/colours is Ready, but cluster: no [bold]Secret (since 1h)".replace(
        "1h", result.lines[0].rpartition("since ")[2].rstrip(")")
    )
    assert "resolved to 1.0.0 (colours-1.0.0), by ModuleReleaseMeta colours generation 1, changed " in result.text
    assert result.lines[-1].startswith("next:  klm join locked-out --kubeconfig FILE")


async def test_explain_lists_the_modules_that_there_are(broken: Client, viewer: Klm) -> None:
    result = await viewer("explain", "locked-out", "keda")
    assert (result.code, result.text) == (2, "")
    assert "Kyma locked-out has no module keda; it has: colours" in result.errors
    missing = await viewer("explain", "locked-out", "secret/nothing")
    assert "no module of Kyma locked-out has an object secret/nothing" in missing.errors
