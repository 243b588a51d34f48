"""Takes events that other replicas hand over."""

from collections.abc import Callable

import msgspec
from cryptography import x509
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from kube_runtime import UNDECODABLE
from kube_runtime.leases.membership import Membership
from lifecycle_manager.contract.dns_names import REPLICA_HOST
from lifecycle_manager.events.publishing import EventPublisher
from lifecycle_manager.process.serving import BodyTooLarge, read_body
from lifecycle_manager.replicas.message import MAX_BODY_BYTES, PATH, DeliveryResult, Handed


def create_app(publisher: EventPublisher, membership: Membership, ready: Callable[[], bool]) -> Starlette:
    """Return the application. Its TLS has to require a client certificate of the CAs of KCP.

    An event is taken where its Kyma belongs to this replica or is about to; the sender may know that later.
    """

    async def take(request: Request) -> Response:
        if not is_replica(request.scope.get("extensions", {}).get("tls", {}).get("client_cert_der")):
            return Response("the client certificate does not belong to a replica", 403)
        if not ready():
            return Response("this replica is starting or stopping", 503)
        try:
            handed = msgspec.json.decode(await read_body(request, MAX_BODY_BYTES), type=list[Handed])
        except BodyTooLarge as error:
            return Response(str(error), 413)
        except UNDECODABLE as error:
            return Response(str(error), 400)
        except ClientDisconnect:
            return Response("the connection ended within the body", 400)
        refused = [position for position, each in enumerate(handed) if not _take(each)]
        return Response(msgspec.json.encode(DeliveryResult(tuple(refused))), media_type="application/json")

    def _take(handed: Handed) -> bool:
        owner = membership.owner_of(handed.kyma)
        if owner is None or owner.identity != membership.identity:
            return False
        publisher.take(handed.kyma, handed.verified)
        return True

    return Starlette(routes=[Route(PATH, take, methods=["POST"])])


def is_replica(der: bytes | None) -> bool:
    """Tell whether a certificate, which TLS has verified, has the name of replicas."""
    if der is None:
        return False
    try:
        extension = x509.load_der_x509_certificate(der).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return False
    return REPLICA_HOST in extension.value.get_values_for_type(x509.DNSName)
