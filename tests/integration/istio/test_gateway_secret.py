"""The Secret with which the Istio gateway serves Watchers, on a real API server."""

import base64
from datetime import UTC, datetime, timedelta

from kube_runtime import NotFound, NotServed
from kyma_certs import CAs, KeyPair, LeafRequest, describe, issue, issued_by
from lifecycle_manager.contract.resources import SECRETS, Secret
from lifecycle_manager.contract.signals import CAsChanged
from tests.integration.istio.conftest import HOST, ISTIO, Routes
from tests.waiting import eventually

NAME = "klm-istio-gateway"
METRIC = "lifecycle_mgr_gateway_secret_server_cert_close_to_expiry"


def content(secret: Secret, key: str) -> bytes:
    return base64.b64decode(secret.data[key])


async def secret_of(world: Routes) -> Secret | None:
    try:
        return await world.kcp.get(SECRETS, NAME, ISTIO)
    except (NotFound, NotServed):
        return None


async def secret_with(world: Routes, cas: CAs) -> Secret:
    async def found() -> Secret | None:
        secret = await secret_of(world)
        if secret is None or content(secret, "ca.crt") != cas.trusted:
            return None
        return secret if issued_by(content(secret, "tls.crt"), cas.signing.certificate_pem) else None

    return await eventually(found, what="the Secret has a certificate of the CA in force")


async def leave_behind(world: Routes, ca: KeyPair) -> Secret:
    """Write the Secret as the former version does: with the certificate and the key of the CA."""
    if await secret_of(world) is not None:
        await world.kcp.delete(SECRETS, NAME, ISTIO)
    data = {"tls.crt": ca.certificate_pem, "tls.key": ca.key_pem, "ca.crt": ca.certificate_pem}
    document = {
        "metadata": {"name": NAME, "annotations": {"caAddedToBundleAt": "2026-07-01T00:00:00Z"}},
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }
    return await world.kcp.create(SECRETS, document, ISTIO, field_manager="lifecycle-manager")


async def test_gateway_gets_a_certificate_in_place_of_the_key_of_the_ca(world: Routes) -> None:
    await world.add_gateway(f"kcp-system/{HOST}", "*", "other.kyma.example.com")
    before = await leave_behind(world, world.cas.signing)
    async with world.running() as manager:

        async def is_replaced() -> Secret | None:
            secret = await secret_of(world)
            return secret if secret is not None and secret.data["tls.key"] != before.data["tls.key"] else None

        secret = await eventually(is_replaced, what="the key of the CA is replaced")
        assert secret.metadata.uid == before.metadata.uid
        assert secret.metadata.annotations == before.metadata.annotations
        shown = describe(content(secret, "tls.crt"))
        assert shown.dns_names == (HOST, "other.kyma.example.com")
        assert shown.ip_addresses == ("127.0.0.1",)
        assert issued_by(content(secret, "tls.crt"), world.cas.signing.certificate_pem)

        def sample() -> float | None:
            return manager.registry.get_sample_value(METRIC)

        await eventually(lambda: sample() == 0.0, what="the metric says that it does not end soon")


async def test_unreadable_certificate_and_new_hosts_are_replaced(world: Routes) -> None:
    await world.add_gateway(HOST)
    async with world.running():
        await secret_with(world, world.cas)
        broken = {"data": {"tls.crt": base64.b64encode(b"no certificate").decode()}}
        await world.kcp.merge_patch(SECRETS, NAME, broken, ISTIO, field_manager="user")
        await world.add_gateway(HOST, "next.kyma.example.com")

        async def has_both() -> bool:
            secret = await secret_of(world)
            assert secret is not None
            try:
                return describe(content(secret, "tls.crt")).dns_names == (HOST, "next.kyma.example.com")
            except ValueError:
                return False

        await eventually(has_both, what="the certificate has both hosts")


async def test_gateway_secret_server_cert_metric(world: Routes) -> None:
    """Upstream's scenario: the certificate in use ends soon. Ours replaces it before the metric reports it."""
    await world.add_gateway(HOST)
    async with world.running() as manager:
        before = await secret_with(world, world.cas)
        request = LeafRequest(common_name=HOST, dns_names=(HOST,), lifetime=timedelta(days=7))
        closing = issue(world.cas.signing, request, now=datetime.now(UTC))
        data = {"tls.crt": closing.certificate_pem, "tls.key": closing.key_pem}
        patch = {"data": {key: base64.b64encode(value).decode() for key, value in data.items()}}
        await world.kcp.merge_patch(SECRETS, NAME, patch, ISTIO, field_manager="user")
        manager.publish(CAsChanged())  # the Secret is read hourly, and then

        async def is_replaced() -> bool:
            secret = await secret_of(world)
            assert secret is not None
            return secret.data["tls.crt"] not in {before.data["tls.crt"], patch["data"]["tls.crt"]}

        await eventually(is_replaced, what="the certificate is replaced")
        assert manager.registry.get_sample_value(METRIC) == 0.0
