"""The authorities of the control plane: who issues the Watchers' certificates, and whom to trust.

They live in one Secret: `tls.crt` and `tls.key` issue, `next.crt` and `next.key` will, `former.crt` did, and `ca.crt`
has all that are trusted. Several replicas may work on it at once: the Secret is created, never applied, so whoever
comes second takes what is there; and each step of a rotation names the version that it was decided on, so that it is
taken by one of them.
"""

import asyncio
import base64
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kube_runtime import AlreadyExists, Client, NotFound
from kyma_certs import (
    Algorithm,
    Authorities,
    KeyPair,
    Step,
    announced,
    create_authority,
    dropped,
    spread,
    switched,
)
from lifecycle_manager.resources import FIELD_MANAGER, SECRETS, Secret
from lifecycle_manager.skr_webhook.tls_secret import (
    AUTHORITY_PURPOSE,
    key_pair_in,
    purpose_labels,
    tls_secret_document,
)
from lifecycle_manager_api import names

ROTATE = f"{names.GROUP}/rotate-authority"
"""Set by an operator on the Secret, with any value, to have the authority replaced ahead of its time."""

SINCE = f"{names.GROUP}/rotation-since"
SPREAD_AT = f"{names.GROUP}/rotation-spread-at"


class AuthorityUnusable(Exception):
    """The authority's Secret is there, but holds no key pair."""


@dataclass(frozen=True, slots=True)
class StoredAuthorities:
    """The Secret, what it holds, and whether somebody asked for a rotation."""

    secret: Secret
    authorities: Authorities
    asked: bool


@dataclass(eq=False)
class AuthorityStore:
    """Reads the authorities from their Secret, creates it where there is none, and takes the steps of a rotation."""

    kcp: Client
    clock: Callable[[], datetime]
    lifetime: timedelta = timedelta(days=3650)
    algorithm: Algorithm = Algorithm.ECDSA_P256
    name: str = "klm-watcher"
    namespace: str = names.KCP_NAMESPACE

    async def ensure(self) -> StoredAuthorities:
        """Return the authorities. Raises AuthorityUnusable, or KubeError where KCP can't be asked."""
        try:
            secret = await self.kcp.get(SECRETS, self.name, self.namespace)
        except NotFound:
            secret = await self._create()
        return self._stored(secret)

    async def take(self, step: Step, stored: StoredAuthorities) -> StoredAuthorities:
        """Take a step of a rotation. Raises Conflict where the Secret is not any more what the step was decided on."""
        now = self.clock()
        match step:
            case Step.ANNOUNCE:
                after = announced(stored.authorities, await self._new(), now=now)
            case Step.NOTE_SPREAD:
                after = spread(stored.authorities, now=now)
            case Step.SWITCH:
                after = switched(stored.authorities, now=now)
            case Step.DROP:
                after = dropped(stored.authorities)
        notes = _notes(after) | ({ROTATE: None} if step is Step.ANNOUNCE else {})
        patch = {
            "metadata": {"resourceVersion": stored.secret.metadata.resource_version, "annotations": notes},
            "data": _data(after),
        }
        patched = await self.kcp.merge_patch(SECRETS, self.name, patch, self.namespace, field_manager=FIELD_MANAGER)
        return self._stored(patched)

    async def _create(self) -> Secret:
        pair = await self._new()
        labels = purpose_labels(AUTHORITY_PURPOSE)
        document = tls_secret_document(self.name, self.namespace, pair, pair.certificate_pem, labels)
        try:
            return await self.kcp.create(SECRETS, document, self.namespace, field_manager=FIELD_MANAGER)
        except AlreadyExists:
            return await self.kcp.get(SECRETS, self.name, self.namespace)

    async def _new(self) -> KeyPair:
        return await asyncio.to_thread(
            create_authority,
            "klm-watcher-selfsigned",
            lifetime=self.lifetime,
            algorithm=self.algorithm,
            now=self.clock(),
        )

    def _stored(self, secret: Secret) -> StoredAuthorities:
        signing = key_pair_in(secret)
        if signing is None:
            raise AuthorityUnusable(
                f"Secret {self.namespace}/{self.name} has no tls.crt and tls.key; restore it, or delete it to have "
                "a new authority made"
            )
        notes, former = secret.metadata.annotations, secret.data.get("former.crt")
        authorities = Authorities(
            signing,
            following=key_pair_in(secret, "next"),
            former_pem=base64.b64decode(former) if former else None,
            since=_time(notes.get(SINCE)),
            spread_at=_time(notes.get(SPREAD_AT)),
        )
        return StoredAuthorities(secret, authorities, bool(notes.get(ROTATE)))


def _notes(authorities: Authorities) -> dict[str, str | None]:
    return {
        name: moment.isoformat() if moment is not None else None
        for name, moment in ((SINCE, authorities.since), (SPREAD_AT, authorities.spread_at))
    }


def _data(authorities: Authorities) -> dict[str, Any]:
    """Return all fields of the Secret; null takes one away."""
    following = authorities.following
    contents = {
        "tls.crt": authorities.signing.certificate_pem,
        "tls.key": authorities.signing.key_pem,
        "next.crt": following.certificate_pem if following is not None else None,
        "next.key": following.key_pem if following is not None else None,
        "former.crt": authorities.former_pem,
        "ca.crt": authorities.trusted,
    }
    return {
        key: base64.b64encode(content).decode() if content is not None else None for key, content in contents.items()
    }


def _time(text: str | None) -> datetime | None:
    """Read a note; one that can't be read is as if it were not there, and a rotation takes longer for it."""
    try:
        moment = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None
