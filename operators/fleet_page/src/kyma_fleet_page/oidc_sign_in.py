"""Signing in at the identity provider: the way there, and the way back.

What belongs to an attempt is in a cookie, encrypted with a key of this process: nobody can fill its memory. That cookie
is sent when the browser comes back from another site (SameSite=Lax), unlike that of the session.
"""

import secrets

import msgspec
from cryptography.fernet import Fernet, InvalidToken
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from kyma_fleet_page.oidc import CALLBACK, IdentityProvider, ProviderFailed, SignInAttempt
from kyma_fleet_page.signing_in import SignIn, own_path

COOKIE = "__Host-fleet-sign-in"
SECONDS = 600
EXPIRED = "the sign-in took too long, or began under another address of the page; try again"
MAX_SHOWN = 100


class OidcSignIn:
    """Signs browsers in with the token that the identity provider gives for them."""

    def __init__(self, provider: IdentityProvider, sign_in: SignIn) -> None:
        self._provider = provider
        self._sign_in = sign_in
        self._box = Fernet(Fernet.generate_key())

    async def begin(self, request: Request) -> Response:
        """Send the browser to the provider."""
        back = own_path(request.query_params.get("back", "/"))
        attempt = SignInAttempt.towards(back)
        try:
            address = await self._provider.address_for(attempt)
        except ProviderFailed as error:
            return self._sign_in.form(503, str(error), back)
        answer = RedirectResponse(address, 303)
        content = self._box.encrypt(msgspec.json.encode(attempt)).decode()
        answer.set_cookie(COOKIE, content, max_age=SECONDS, secure=True, httponly=True, samesite="lax")
        return answer

    async def complete(self, request: Request) -> Response:
        """Start a session for the code with which the browser comes back."""
        attempt = self._attempt_of(request)
        given = request.query_params
        if attempt is None or not secrets.compare_digest(attempt.state.encode(), given.get("state", "").encode()):
            return self._without_attempt(request)
        if problem := given.get("error", ""):
            return self._sign_in.form(401, f"the identity provider refuses: {problem[:MAX_SHOWN]}", attempt.back)
        try:
            token = await self._provider.token_for(given.get("code", ""), attempt)
        except ProviderFailed as error:
            return self._sign_in.form(503, str(error), attempt.back)
        answer = await self._sign_in.start_session(request, token, attempt.back)
        answer.delete_cookie(COOKIE, secure=True, httponly=True, samesite="lax")
        return answer

    def _without_attempt(self, request: Request) -> Response:
        """Answer a callback that was completed already, such as a reload of it, or that took too long."""
        if self._sign_in.token_of(request):
            return self._sign_in.leading_to("/")
        if request.headers.get("sec-fetch-site") == "cross-site":  # whose session is not sent
            return self._sign_in.leading_to(CALLBACK)
        return self._sign_in.form(401, EXPIRED, "/")

    def _attempt_of(self, request: Request) -> SignInAttempt | None:
        try:
            content = self._box.decrypt(request.cookies.get(COOKIE, "").encode("utf-8", "replace"), ttl=SECONDS)
        except InvalidToken:
            return None
        return msgspec.json.decode(content, type=SignInAttempt)
