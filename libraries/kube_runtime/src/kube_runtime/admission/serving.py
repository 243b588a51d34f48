"""Serves webhooks over TLS with a certificate of an own CA, and keeps their configuration in the cluster.

In a cluster a Service leads to the replicas, and their CA is in a Secret beside it. Elsewhere the API server is given
the address itself, and the CA is that of the process: the configuration is removed at its stop, as nobody else serves
the webhooks and writes would be refused. A certificate is as long-lived as its CA, ten years, and a
process takes a new CA where less than one year is left at its start.
"""

import asyncio
import base64
import logging
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from aiohttp import web

from kube_runtime.admission.review import MAX_BYTES, MAX_BYTES_PER_ADDRESS, MAX_REVIEW_BYTES, review_of
from kube_runtime.admission.webhooks import Webhook
from kube_runtime.apply.settled import is_settled
from kube_runtime.byte_budget import ByteBudget, TooManyBytes
from kube_runtime.client.client import Client
from kube_runtime.controller.causes import Causes
from kube_runtime.controller.controller import Controller
from kube_runtime.controller.workers import Result
from kube_runtime.exceptions import AddressUnusable, AlreadyExists, Conflict, KubeError, NotFound
from kube_runtime.informer import Informer
from kube_runtime.manager import Manager
from kube_runtime.resource import JsonObject, ObjectKey, Resource
from kyma_certs import KeyPair, LeafRequest, Usage, create_ca, issue, renewal_due

log = logging.getLogger(__name__)
SECRETS = Resource.dynamic("", "v1", "Secret", "secrets", namespaced=True)
LIFETIME, RENEW_BEFORE = timedelta(days=3650), timedelta(days=365)
BODY_SECONDS = 10.0
_GROUP = "admissionregistration.k8s.io"


class WebhookServer:
    """The webhooks of one operator. `service` leads to `address` in a cluster; elsewhere the address itself is used."""

    def __init__(
        self, operator: str, webhooks: Sequence[Webhook[Any]], address: tuple[str, int], service: ObjectKey | None
    ) -> None:
        self._operator = operator
        self._webhooks = webhooks
        self._address = address
        self._service = service
        self._trust = b""
        self._changing = asyncio.Lock()
        self._kept: list[Informer[JsonObject]] = []
        app, budget = web.Application(), ByteBudget(MAX_BYTES, MAX_BYTES_PER_ADDRESS)
        for each in webhooks:
            app.router.add_post(each.path, _handler(each, budget))
        self._runner = web.AppRunner(app, access_log=None)

    def setup(self, manager: Manager, namespace: str | None) -> None:
        """Declare at a Manager: the server, and a controller for each configuration, of objects in a namespace."""

        async def serve() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                if self._service is None:
                    await self._remove_configurations(manager.client)
                await self.close()

        manager.before_start(partial(self._start, manager.unfenced))
        manager.serves(serve, name="webhooks")
        for mutates, kind in ((False, "ValidatingWebhookConfiguration"), (True, "MutatingWebhookConfiguration")):
            chosen = [each for each in self._webhooks if each.mutates == mutates]
            if chosen:
                resource = Resource.dynamic(_GROUP, "v1", kind, f"{kind.lower()}s", namespaced=False)
                self._keep(manager, resource, chosen, namespace)

    async def close(self) -> None:
        """Stop serving, after the requests in progress."""
        await self._runner.cleanup()

    def _keep(
        self, manager: Manager, resource: Resource[JsonObject], chosen: list[Webhook[Any]], namespace: str | None
    ) -> None:
        """Declare the controller that applies a configuration, and again when somebody changes it."""
        informer = manager.informer(resource, field_selector=f"metadata.name={self._operator}")
        self._kept.append(informer)

        async def reconcile(key: ObjectKey, _causes: Causes, _state: None) -> Result:
            webhooks = [each.configuration(self._operator, self.client_of(each), namespace) for each in chosen]
            wanted = {"metadata": {"name": key.name}, "webhooks": webhooks}
            async with self._changing:
                found, is_kept = informer.get(key), manager.working or self._service is not None
                if is_kept and (found is None or not is_settled(found, wanted, self._operator)):
                    answer = await manager.client.apply(resource, key.name, wanted, field_manager=self._operator)
                    informer.wrote(answer)
            return Result()

        controller: Controller[ObjectKey, None] = manager.controller(resource.plural_name, owner=lambda _: "")
        controller.watches(informer)
        controller.starts_with(lambda: (ObjectKey("", self._operator),))
        controller.reconciles(reconcile)

    async def _remove_configurations(self, client: Client) -> None:
        async with self._changing:
            for informer in self._kept:
                found = informer.get(ObjectKey("", self._operator))
                if found is None:
                    continue
                try:
                    await client.delete(informer.resource, self._operator, uid=found["metadata"]["uid"])
                except NotFound:
                    continue
                except KubeError as error:
                    what = f"{informer.resource.plural} {self._operator}"
                    log.warning("%s stays, and has writes refused: %s; kubectl delete %s", what, error, what)

    def client_of(self, webhook: Webhook[Any]) -> JsonObject:
        """Return by which address and CA an API server calls a webhook."""
        trust = {"caBundle": base64.b64encode(self._trust).decode()}
        if self._service is None:
            host = f"[{self._address[0]}]" if ":" in self._address[0] else self._address[0]
            return {"url": f"https://{host}:{self._address[1]}{webhook.path}", **trust}
        namespace, name = self._service
        return {"service": {"namespace": namespace, "name": name, "path": webhook.path, "port": 443}, **trust}

    async def _start(self, client: Client) -> None:
        now = datetime.now(UTC)
        if self._service is None:
            ca, host = _new_ca(self._operator, now), self._address[0]
        else:
            ca = await _shared_ca(client, self._operator, self._service.namespace, now)
            host = f"{self._service.name}.{self._service.namespace}.svc"
        names: dict[str, Any] = {"ip_addresses" if _is_ip(host) else "dns_names": (host,)}
        usages = frozenset({Usage.SERVER})
        request = LeafRequest(common_name=self._operator, lifetime=LIFETIME, usages=usages, **names)
        self._trust = ca.certificate_pem
        await self._runner.setup()
        site = web.TCPSite(self._runner, *self._address, ssl_context=_context(issue(ca, request, now=now)))
        try:
            await site.start()
        except OSError as error:
            where = ":".join(map(str, self._address))
            raise AddressUnusable(f"webhooks can't be served at {where}: {error.strerror or error}") from error
        self._address = (self._address[0], self._runner.addresses[0][1])
        paths = ", ".join(each.path for each in self._webhooks)
        log.info("webhooks at https://%s:%d%s: %s", *self._address, f" for {host}" if self._service else "", paths)


def _handler(webhook: Webhook[Any], budget: ByteBudget) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        with budget.share(request.remote or "") as take:
            try:
                review = review_of(await _body_of(request, take))
            except (ValueError, IndexError, RecursionError) as error:
                return web.Response(status=400, text=f"invalid AdmissionReview: {error}\n")
            except TooManyBytes as error:
                return web.Response(status=503, text=f"{error}\n")
            except TimeoutError:
                return web.Response(status=408, text=f"the body took more than {BODY_SECONDS:g} s\n")
            return web.Response(body=await webhook.respond(review), content_type="application/json")

    return handle


async def _body_of(request: web.Request, take: Callable[[int], None]) -> bytes:
    """Return the body. Raises ValueError for one that is too large, TimeoutError, and TooManyBytes."""
    body = bytearray()
    async with asyncio.timeout(BODY_SECONDS):
        async for chunk in request.content.iter_any():
            take(len(chunk))
            body += chunk
            if len(body) > MAX_REVIEW_BYTES:
                raise ValueError(f"more than {MAX_REVIEW_BYTES} bytes")
    return bytes(body)


async def _shared_ca(client: Client, operator: str, namespace: str, now: datetime) -> KeyPair:
    """Return the CA that all replicas share, made by the first of them. Raises KubeError."""
    name = f"{operator}-webhook-ca"
    try:
        found = await client.get(SECRETS, name, namespace)
    except NotFound:
        made = _new_ca(operator, now)
        data = {"tls.crt": made.certificate_pem, "tls.key": made.key_pem}
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        document = {"metadata": {"name": name}, "type": "kubernetes.io/tls", "data": encoded}
        try:
            await client.create(SECRETS, document, namespace, field_manager=operator)
        except AlreadyExists:
            return await _shared_ca(client, operator, namespace, now)
        return made
    pair = KeyPair(*(base64.b64decode(found["data"][key]) for key in ("tls.crt", "tls.key")))
    if not renewal_due(pair.certificate_pem, renew_before=RENEW_BEFORE, now=now):
        return pair
    version = found["metadata"]["resourceVersion"]
    with suppress(Conflict, NotFound):  # another replica was faster
        await client.delete(SECRETS, name, namespace, resource_version=version)
    return await _shared_ca(client, operator, namespace, now)


def _new_ca(operator: str, now: datetime) -> KeyPair:
    return create_ca(f"{operator} webhooks", lifetime=LIFETIME, now=now)


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _context(pair: KeyPair) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with TemporaryDirectory() as folder:  # Python loads certificates from files alone
        file = Path(folder, "tls.pem")
        file.touch(mode=0o600)
        file.write_bytes(pair.certificate_pem + pair.key_pem)
        context.load_cert_chain(file)
    return context
