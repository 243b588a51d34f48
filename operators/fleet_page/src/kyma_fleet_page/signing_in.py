"""Who is asking: a token in the header, which a proxy adds, or the session of a browser that signed in with one."""

import re
from collections.abc import Awaitable, Callable
from typing import Protocol
from urllib.parse import parse_qs, quote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response

from kube_runtime import KubeError
from kyma_fleet_page.access import AccessDecision, Authorizer
from kyma_fleet_page.guard import is_sent_by_the_page
from kyma_fleet_page.sessions import OperatorSessions
from lifecycle_manager.process.serving import BodyTooLarge, read_body

COOKIE = "__Host-fleet-session"
"""Browsers keep a cookie of such a name for its host alone, and over http only from a loopback address."""
MAX_FORM_BYTES = 32 * 1024
STATUSES = {AccessDecision.UNKNOWN: 401, AccessDecision.FORBIDDEN: 403}
UNANSWERED = "the control plane cannot be asked who you are; try again"
OWN_PATH = re.compile(r"/(?![/\\])[!-~]{0,2000}")
Page = Callable[[Request], Awaitable[Response]]


class Html(Protocol):
    """Renders a template."""

    def __call__(self, template: str, status: int, /, *, why: str, back: str) -> Response:
        """Return the answer."""
        ...


ONCE = "/sign-in/once"
OwnLink = Callable[["SignIn", Request], Awaitable[Response]]
"""Signs in the operator for whom `klm ui` serves the page, by an address that it prints."""


class SignIn:
    """Shows pages to whom the API server allows, and the form for a token to everybody else."""

    def __init__(self, access: Authorizer, sessions: OperatorSessions, html: Html) -> None:
        self._access = access
        self._sessions = sessions
        self._html = html

    def token_of(self, request: Request) -> str:
        """Return the token of a request; nothing where there is none."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return token.strip()
        return self._sessions.token_of(request.cookies.get(COOKIE, ""))

    def protected(self, page: Page) -> Page:
        """Return the page behind a check of the token."""

        async def checked(request: Request) -> Response:
            token, query = self.token_of(request), request.scope["query_string"].decode("ascii", "replace")
            back = quote(request.scope["path"]) + (f"?{query}" if query else "")
            if not token and request.headers.get("sec-fetch-site") == "cross-site":
                return self.leading_to(back)
            try:
                refusal = await self._refusal(token, back) if token else self.form(401, "", back)
                return refusal if refusal is not None else await page(request)
            except KubeError:
                return self.form(503, UNANSWERED, back)

        return checked

    async def sign_in(self, request: Request) -> Response:
        """Start a session for the token of the form, and go to the page that was asked for."""
        if not is_sent_by_the_page(request):
            return _foreign()
        try:
            body = await read_body(request, MAX_FORM_BYTES)
        except BodyTooLarge:
            return Response("the form is too large\n", 413, media_type="text/plain")
        except ClientDisconnect:
            return Response("the connection ended within the form\n", 400, media_type="text/plain")
        try:
            form = parse_qs(body.decode("ascii", "replace"), max_num_fields=2)
        except ValueError:
            return Response("the form has other fields\n", 400, media_type="text/plain")
        return await self.start_session(
            request, form.get("token", [""])[0].strip(), own_path(form.get("back", ["/"])[0])
        )

    async def start_session(self, request: Request, token: str, back: str) -> Response:
        """Start a session for a token, and go to a page of our own."""
        try:
            refusal, user = await self._refusal(token, back), await self._access.user_of(token)
        except KubeError:
            return self.form(503, UNANSWERED, back)
        if refusal is not None:
            return refusal
        self._sessions.end(request.cookies.get(COOKIE, ""))
        answer = self.leading_to(back)
        answer.set_cookie(COOKIE, self._sessions.start(user, token), secure=True, httponly=True, samesite="strict")
        return answer

    async def sign_out(self, request: Request) -> Response:
        """End the session."""
        if not is_sent_by_the_page(request):
            return _foreign()
        self._sessions.end(request.cookies.get(COOKIE, ""))
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(COOKIE, secure=True, httponly=True, samesite="strict")
        return answer

    async def _refusal(self, token: str, back: str) -> Response | None:
        verdict = await self._access.of(token)
        return None if verdict is AccessDecision.ALLOWED else self.form(STATUSES[verdict], verdict.value, back)

    def leading_to(self, path: str) -> Response:
        """Return a page that leads to another: after a link of another site browsers keep back a strict cookie."""
        return self._html("leading.html", 200, why="", back=own_path(path))

    def form(self, status: int, why: str, back: str) -> Response:
        """Return the form for signing in, with what is wrong."""
        return self._html("sign-in.html", status, why=why, back=own_path(back))


def _foreign() -> Response:
    return Response("only the page itself can do this\n", 403, media_type="text/plain")


def own_path(path: str) -> str:
    """Return a path of this page; the fleet for what may lead elsewhere."""
    return path if OWN_PATH.fullmatch(path) and "\\" not in path else "/"
