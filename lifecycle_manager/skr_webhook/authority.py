"""The certificate authority of the control plane: issues the Watchers' certificates, and says whom to trust.

It lives in one Secret. Two replicas that start at once can't make two of it: the Secret is created, never applied,
and whoever comes second takes what is there.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from certs import KeyPair, create_authority
from kube_runtime import AlreadyExists, Client, NotFound
from lifecycle_manager.resources import FIELD_MANAGER, SECRETS, Secret
from lifecycle_manager.skr_webhook.tls_secret import (
    AUTHORITY_PURPOSE,
    key_pair_in,
    purpose_labels,
    tls_secret_document,
)
from lifecycle_manager_api import names

AUTHORITY_LIFETIME = timedelta(days=3650)


class AuthorityUnusable(Exception):
    """The authority's Secret is there, but holds no key pair."""


@dataclass(eq=False)
class AuthorityStore:
    """Reads the authority from its Secret, and creates it where there is none."""

    kcp: Client
    clock: Callable[[], datetime]
    name: str = "klm-watcher"
    namespace: str = names.KCP_NAMESPACE

    async def ensure(self) -> KeyPair:
        """Return the authority. Raises AuthorityUnusable, or KubeError where KCP can't be asked."""
        try:
            return self._pair(await self.kcp.get(SECRETS, self.name, self.namespace))
        except NotFound:
            return await self._create()

    async def _create(self) -> KeyPair:
        pair = await asyncio.to_thread(
            create_authority, "klm-watcher-selfsigned", lifetime=AUTHORITY_LIFETIME, now=self.clock()
        )
        document = tls_secret_document(
            self.name, self.namespace, pair, pair.certificate_pem, purpose_labels(AUTHORITY_PURPOSE)
        )
        try:
            await self.kcp.create(SECRETS, document, self.namespace, field_manager=FIELD_MANAGER)
        except AlreadyExists:
            return self._pair(await self.kcp.get(SECRETS, self.name, self.namespace))
        return pair

    def _pair(self, secret: Secret) -> KeyPair:
        pair = key_pair_in(secret)
        if pair is None:
            raise AuthorityUnusable(
                f"Secret {self.namespace}/{self.name} has no tls.crt and tls.key; restore it, or delete it to have "
                "a new authority made"
            )
        return pair
