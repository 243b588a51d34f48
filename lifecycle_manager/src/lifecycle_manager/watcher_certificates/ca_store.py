"""The CAs of KCP in their Secret: which one issues the Watchers' certificates, and which ones are trusted.

`tls.crt` and `tls.key` issue, `next.crt` and `next.key` will, `former.crt` did, and `ca.crt` has all that are trusted.
Several replicas may work on the Secret at once: it is created, never applied, so the second one takes what exists; and
each step of a rotation names the version that it was decided on, so only one of them takes it.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kube_runtime import AlreadyExists, Client, Clock, NotFound, ObjectKey
from kyma_certs import (
    CAs,
    KeyPair,
    RotationStep,
    announced,
    create_ca,
    describe,
    dropped,
    is_ca,
    spread,
    switched,
)
from lifecycle_manager.contract.resources import FIELD_MANAGER, SECRETS, Secret
from lifecycle_manager.watcher_certificates.tls_secret import (
    CA_PURPOSE,
    encoded,
    key_pair_in,
    purpose_labels,
    tls_secret_document,
)
from lifecycle_manager_api import names

CA_SECRET = "klm-watcher"  # noqa: S105 - a name
ROTATE = f"{names.GROUP}/rotate-ca"
"""Set by an operator on the Secret, with any value, to have the CA replaced ahead of time."""

ADOPTED = f"{names.GROUP}/adopted-ca"
"""The SHA-256 of the CA that was a former version's."""

SINCE = f"{names.GROUP}/rotation-since"
SPREAD_AT = f"{names.GROUP}/rotation-spread-at"


class CASecretInvalid(Exception):
    """The Secret of the CAs exists, but holds no key pair that can be used."""


@dataclass(frozen=True, slots=True)
class StoredCAs:
    """The Secret, the CAs in it, and whether an operator requested a rotation.

    `is_adopted`: one of the CAs, which is trusted, is that of a former version.
    """

    secret: Secret
    cas: CAs
    rotation_requested: bool
    is_adopted: bool = False


Adopts = Callable[[Client, str], Awaitable[CAs | None]]
"""Finds the CAs of a former version in a namespace, to adopt them in place of new ones; None where there are none."""


async def adopts_nothing(_kcp: Client, _namespace: str) -> None:
    """Find no CAs to adopt."""


@dataclass(frozen=True, eq=False)
class CAStore:
    """Reads the CAs from their Secret, creates it where it does not exist, and takes the steps of a rotation."""

    kcp: Client
    clock: Clock
    lifetime: timedelta = timedelta(days=3650)
    name: str = CA_SECRET
    common_name: str = "klm-watcher-selfsigned"
    namespace: str = names.KCP_NAMESPACE
    adopts: Adopts = adopts_nothing
    former_namespace: str = ""

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.name)

    async def ensure(self, known: Secret | None = None) -> StoredCAs:
        """Return the CAs; `known` is the Secret as a cache has it, which is read otherwise.

        Raises CASecretInvalid, or KubeError where KCP does not answer.
        """
        if known is not None:
            return self._stored(known)
        try:
            secret = await self.kcp.get(SECRETS, self.name, self.namespace)
        except NotFound:
            secret = await self._create()
        return self._stored(await self._watched(secret))

    async def _watched(self, secret: Secret) -> Secret:
        """Return the Secret with the labels by which it is watched: an administrator or cert-manager sets none."""
        labels = purpose_labels(CA_PURPOSE)
        if labels.items() <= secret.metadata.labels.items():
            return secret
        patch = {"metadata": {"labels": labels}}
        return await self.kcp.merge_patch(SECRETS, self.name, patch, self.namespace, field_manager=FIELD_MANAGER)

    async def take(self, step: RotationStep, stored: StoredCAs) -> StoredCAs:
        """Take a step of a rotation. Raises Conflict where the Secret has changed since the step was decided."""
        now = self.clock.now()
        match step:
            case RotationStep.ANNOUNCE:
                after = announced(stored.cas, await self._new(), now=now)
            case RotationStep.NOTE_SPREAD:
                after = spread(stored.cas, now=now)
            case RotationStep.SWITCH:
                after = switched(stored.cas, now=now)
            case RotationStep.DROP:
                after = dropped(stored.cas)
        times = {SINCE: after.since, SPREAD_AT: after.spread_at}
        annotations = {name: moment.isoformat() if moment is not None else None for name, moment in times.items()}
        if step is RotationStep.ANNOUNCE:
            annotations[ROTATE] = None
        patch = {
            "metadata": {"resourceVersion": stored.secret.metadata.resource_version, "annotations": annotations},
            "data": _data(after),
        }
        patched = await self.kcp.merge_patch(SECRETS, self.name, patch, self.namespace, field_manager=FIELD_MANAGER)
        return self._stored(patched)

    async def _create(self) -> Secret:
        former = await self.adopts(self.kcp, self.former_namespace)
        cas = replace(former, since=self.clock.now()) if former is not None else CAs(await self._new())
        labels = purpose_labels(CA_PURPOSE)
        document = tls_secret_document(self.name, self.namespace, cas.signing, trust=cas.trusted, labels=labels)
        document["data"] = {key: value for key, value in _data(cas).items() if value is not None}
        if former is not None:
            document["metadata"]["annotations"] = {
                ADOPTED: describe(cas.signing.certificate_pem).sha256,
                SINCE: self.clock.now().isoformat(),
            }
        try:
            return await self.kcp.create(SECRETS, document, self.namespace, field_manager=FIELD_MANAGER)
        except AlreadyExists:
            return await self.kcp.get(SECRETS, self.name, self.namespace)

    async def _new(self) -> KeyPair:
        return await asyncio.to_thread(create_ca, self.common_name, lifetime=self.lifetime, now=self.clock.now())

    def _stored(self, secret: Secret) -> StoredCAs:
        signing = key_pair_in(secret)
        if signing is None or not is_ca(signing.certificate_pem):
            raise CASecretInvalid(
                f"Secret {self.namespace}/{self.name} has no usable tls.crt and tls.key, or these do not belong "
                "together, or are no CA's (critical basicConstraints, keyUsage keyCertSign, subjectKeyIdentifier); "
                "restore it, or delete it to have a new CA created"
            )
        annotations, former = secret.metadata.annotations, secret.data.get("former.crt")
        cas = CAs(
            signing,
            following=key_pair_in(secret, "next"),
            former_pem=base64.b64decode(former) if former else None,
            since=_time(annotations.get(SINCE)),
            spread_at=_time(annotations.get(SPREAD_AT)),
        )
        adopted = annotations.get(ADOPTED)
        trusted = filter(None, (cas.signing.certificate_pem, cas.former_pem))
        is_adopted = adopted is not None and any(describe(pem).sha256 == adopted for pem in trusted)
        return StoredCAs(secret, cas, bool(annotations.get(ROTATE)), is_adopted)


def _data(cas: CAs) -> dict[str, str | None]:
    """Return all fields of the Secret; null removes one."""
    contents = {
        "tls.crt": cas.signing.certificate_pem,
        "tls.key": cas.signing.key_pem,
        "next.crt": cas.following.certificate_pem if cas.following is not None else None,
        "next.key": cas.following.key_pem if cas.following is not None else None,
        "former.crt": cas.former_pem,
        "ca.crt": cas.trusted,
    }
    return {key: encoded(content) if content is not None else None for key, content in contents.items()}


def _time(text: str | None) -> datetime | None:
    """Parse a time; one that can't be parsed counts as absent, and the rotation takes longer for it."""
    try:
        moment = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None
