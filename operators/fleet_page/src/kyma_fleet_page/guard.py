"""What every answer of the page has: security headers, and no other name than loopback or a configured one.

A web page elsewhere can have its own name resolve to a loopback address (DNS rebinding). Browsers then treat the fleet
page as part of it; what they can't change is the Host header.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECURITY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with "no-referrer", browsers send forms without their origin
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True)
class Guard:
    """Passes requests for the page's own names to the application; `hosts` are those beside loopback."""

    app: ASGIApp
    hosts: Collection[str] = field(default=())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return

        async def send_secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        if _is_named(Headers(scope=scope).getlist("host"), self.hosts):
            await self.app(scope, receive, send_secured)
            return
        text = "the page has another name: use localhost, or set --ui-allowed-hosts\n"
        await Response(text, 421, media_type="text/plain")(scope, receive, send_secured)


def is_sent_by_the_page(request: Request) -> bool:
    """Tell whether the page itself sent a form: browsers say so, and what does not is refused."""
    origin = urlsplit(request.headers.get("origin", ""))
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    return origin.scheme in {"http", "https"} and origin.netloc == request.headers.get("host")


def _is_named(given: list[str], hosts: Collection[str]) -> bool:
    try:
        (host,) = given
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or name in hosts or ip_address(name).is_loopback
    except ValueError:
        return False
