"""Taking events that other replicas hand over."""

from collections.abc import Callable

import msgspec
from cryptography import x509
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from lifecycle_manager.replicas.message import (
    LARGEST_BODY,
    PATH,
    REPLICA_HOST,
    Answer,
    Handed,
    decode_handed,
    encode,
)
from lifecycle_manager.replicas.sharing import Shared
from lifecycle_manager.routing import EventRouter
from lifecycle_manager.serving import BodyTooLarge, read_body


def create_app(router: EventRouter, shared: Shared, ready: Callable[[], bool]) -> Starlette:
    """Return the application. Its TLS has to require a client's certificate of the control plane's own authority.

    An event is taken where its Kyma is this replica's or is about to be; the sender may know less of that than we do.
    """

    async def take(request: Request) -> Response:
        if not _is_replica(request):
            return Response("only replicas hand over events here", 403)
        if not ready():
            return Response("this replica is starting or stopping", 503)
        try:
            handed = decode_handed(await read_body(request, LARGEST_BODY))
        except BodyTooLarge as error:
            return Response(str(error), 413)
        except msgspec.DecodeError as error:
            return Response(str(error), 400)
        refused = [place for place, each in enumerate(handed) if not _take(each)]
        return Response(encode(Answer(tuple(refused))), media_type="application/json")

    def _take(handed: Handed) -> bool:
        owner = shared.membership.owner_of(handed.kyma)
        if owner is None or owner.identity != shared.membership.identity:
            return False
        router.take(handed.kyma, handed.verified)
        return True

    return Starlette(routes=[Route(PATH, take, methods=["POST"])])


def _is_replica(request: Request) -> bool:
    """Tell whether the peer's certificate, which TLS has verified, bears the name of replicas."""
    der = request.scope.get("extensions", {}).get("tls", {}).get("client_cert_der")
    if der is None:
        return False
    try:
        extension = x509.load_der_x509_certificate(der).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return False
    return REPLICA_HOST in extension.value.get_values_for_type(x509.DNSName)
