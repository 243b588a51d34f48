"""The short-lived token in an access Secret: of which ServiceAccount it is, how long it lasts, and when it is due.

Lifecycle Manager renews it only where the Secret has the annotation `renew-token`: other Secrets are rotated by those
who write them. Whatever an SKR returns as a new token is held to the same rules as what was there before.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from kube_runtime import JsonObject, KubeconfigInvalid, dump_yaml
from kube_runtime.client.kubeconfig import entries_by_name, kubeconfig_document
from lifecycle_manager.contract.resources import Secret
from lifecycle_manager_api import boolean, names

DUE = 2 / 3
"""The share of its lifetime after which a token is renewed: the rest is for outages."""
MIN_LIFETIME, MAX_LIFETIME = timedelta(minutes=10), timedelta(days=365)
"""Kubernetes issues none for less. A shorter one from an SKR would be renewed, and so written to KCP, all the time."""
SKEW = timedelta(minutes=5)
"""How far the clock of a cluster may differ."""
MAX_LENGTH = 16 * 1024
_JWT = re.compile(r"[A-Za-z0-9_-]+\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]*")
_SUBJECT = re.compile(r"system:serviceaccount:([a-z0-9-]{1,63}):([a-z0-9.-]{1,253})")


class TokenUnusable(Exception):
    """A text is no token of a ServiceAccount that can be renewed; the message says why, and quotes nothing of it."""


class _Account(msgspec.Struct):
    uid: str = ""


class _Kubernetes(msgspec.Struct):
    serviceaccount: _Account = msgspec.field(default_factory=_Account)


class _Claims(msgspec.Struct):
    sub: str
    iat: int
    exp: int
    kubernetes: _Kubernetes = msgspec.field(default_factory=_Kubernetes, name="kubernetes.io")


@dataclass(frozen=True, slots=True)
class Token:
    text: str = field(repr=False)
    namespace: str
    account: str
    issued: datetime
    expires: datetime
    uid: str = ""
    """Of the ServiceAccount."""

    @property
    def lifetime(self) -> timedelta:
        """For how long it was issued."""
        return self.expires - self.issued

    @property
    def due(self) -> datetime:
        return self.issued + min(self.lifetime, MAX_LIFETIME) * DUE

    @property
    def requested(self) -> timedelta:
        """For how long its successor is requested."""
        return min(max(self.lifetime, MIN_LIFETIME), MAX_LIFETIME)

    @property
    def request(self) -> JsonObject:
        seconds = int(self.requested.total_seconds())
        return {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }


def is_renewed(secret: Secret) -> bool:
    """Tell whether Lifecycle Manager renews the token of an access Secret."""
    return boolean(secret.metadata.annotations, names.RENEW_TOKEN)


def token_of(text: object) -> Token:
    """Read a token without verifying it, which only its own API server can. Raises TokenUnusable."""
    found = _JWT.fullmatch(text) if isinstance(text, str) and len(text) <= MAX_LENGTH else None
    if found is None:
        raise TokenUnusable("it is no token of a ServiceAccount")
    try:
        payload = base64.urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % 4))
        claims = msgspec.json.decode(payload, type=_Claims)
        issued, expires = (datetime.fromtimestamp(each, UTC) for each in (claims.iat, claims.exp))
    except (ValueError, OverflowError, OSError):
        raise TokenUnusable("it is no token of a ServiceAccount that expires") from None
    subject = _SUBJECT.fullmatch(claims.sub)
    if subject is None or expires <= issued:
        raise TokenUnusable("it is no token of a ServiceAccount that expires")
    return Token(found[0], subject[1], subject[2], issued, expires, claims.kubernetes.serviceaccount.uid)


def issued_token(answer: JsonObject, former: Token, now: datetime) -> Token:
    """Return the token in the answer to a TokenRequest. Raises TokenUnusable.

    It is believed within [now - SKEW, now + the lifetime that was requested], where the answer says the same as its
    text: a back-dated one would be renewed all the time, and a stolen one of decades would open the cluster as long.
    """
    status = answer.get("status")
    if not isinstance(status, Mapping):
        raise TokenUnusable("it is no token of a ServiceAccount")
    token = token_of(status.get("token"))
    if (token.namespace, token.account) != (former.namespace, former.account):
        raise TokenUnusable("it is a token of another ServiceAccount")
    if abs(token.expires - _time_of(status.get("expirationTimestamp"))) > SKEW:
        raise TokenUnusable("it expires at another time than the answer says")
    if abs(token.issued - now) > SKEW:
        raise TokenUnusable("it was not issued now; check the clocks")
    if token.expires - now < MIN_LIFETIME - SKEW or token.lifetime < MIN_LIFETIME:
        raise TokenUnusable(f"it lasts for less than {MIN_LIFETIME.total_seconds() / 60:.0f} minutes")
    if token.lifetime > former.requested + SKEW:
        raise TokenUnusable("it lasts longer than was requested")
    return token


def _time_of(text: object) -> datetime:
    try:
        return msgspec.convert(text, datetime).astimezone(UTC)
    except (msgspec.ValidationError, ValueError, OverflowError):
        raise TokenUnusable("the answer does not say when it expires") from None


def token_in(kubeconfig: str) -> Token:
    """Return the token of a kubeconfig's user. Raises TokenUnusable."""
    return token_of(_user_of(_document(kubeconfig)).get("token"))


def with_token(kubeconfig: str, token: Token) -> str:
    """Return a kubeconfig with another token, and otherwise the same. Raises TokenUnusable."""
    document = _document(kubeconfig)
    _user_of(document)["token"] = token.text
    return dump_yaml(document)


def _document(kubeconfig: str) -> dict[str, Any]:
    try:
        return kubeconfig_document(kubeconfig)
    except KubeconfigInvalid as error:
        raise TokenUnusable(str(error)) from None


def _user_of(document: dict[str, Any]) -> dict[str, Any]:
    try:
        contexts, users = (entries_by_name(document, key) for key in ("contexts", "users"))
        user = users[contexts[document["current-context"]]["context"]["user"]]["user"]
    except (LookupError, TypeError):
        user = None
    if not isinstance(user, dict):
        raise TokenUnusable("the kubeconfig names no user with a token")
    return user
