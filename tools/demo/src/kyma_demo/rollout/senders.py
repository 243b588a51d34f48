"""How the Watchers of a fleet sign their events: each with the certificate in its Secret, as the real one does."""

import base64
import secrets
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from kyma_certs import describe
from kyma_certs.message_signatures import SignatureParameters, SigningKey, algorithm_of, load_signing_key, sign
from lifecycle_manager_api import WatchEvent, encode_event

VALID_SECONDS = 60
END = "-----END CERTIFICATE-----"


@dataclass(frozen=True, eq=False)
class EventSigner:
    """One Watcher: its key, its certificate as a header field, and TLS with both."""

    key: SigningKey
    keyid: str
    certificate: str
    tls: ssl.SSLContext

    @classmethod
    def of(cls, data: Mapping[str, str]) -> Self:
        """Return the sender that the data of a Secret describes."""
        certificate, key, ca = (base64.b64decode(data[name]) for name in ("tls.crt", "tls.key", "ca.crt"))
        tls = ssl.create_default_context(cadata=ca.decode())
        with TemporaryDirectory() as folder:
            pair = Path(folder) / "pair.pem"
            pair.write_bytes(certificate + key)
            tls.load_cert_chain(pair)
        first = certificate.decode().partition(END)[0] + END
        der = ssl.PEM_cert_to_DER_cert(first)
        encoded = f":{base64.b64encode(der).decode()}:"
        return cls(load_signing_key(key), describe(certificate).sha256, encoded, tls)

    def signed(self, url: str, event: WatchEvent) -> tuple[bytes, dict[str, str]]:
        """Return the body and the header of a request with an event."""
        body, now = encode_event(event), int(time.time())
        nonce = secrets.token_urlsafe(16)
        parameters = SignatureParameters(now, now + VALID_SECONDS, nonce, self.keyid, algorithm_of(self.key))
        return body, {**sign(url, body, self.key, parameters), "Client-Cert": self.certificate}
