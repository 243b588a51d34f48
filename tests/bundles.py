"""Bundles as cosign has written them since version 3."""

from base64 import b64encode
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
STATEMENT = "application/vnd.in-toto+json"
SIGNATURE = "https://sigstore.dev/cosign/sign/v1"


def statement(digest: str, predicate: str = SIGNATURE) -> bytes:
    algorithm, _, value = digest.partition(":")
    document: dict[str, Any] = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"digest": {algorithm: value}, "annotations": {}}],
        "predicateType": predicate,
        "predicate": {},
    }
    return msgspec.json.encode(document)


def bundle(digest: str, key: ec.EllipticCurvePrivateKey, predicate: str = SIGNATURE, kind: str = STATEMENT) -> bytes:
    """Return what cosign writes for a digest that it signs with a key."""
    payload = statement(digest, predicate)
    signed = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload
    signature = b64encode(key.sign(signed, ec.ECDSA(SHA256()))).decode()
    envelope = {"payload": b64encode(payload).decode(), "payloadType": kind, "signatures": [{"sig": signature}]}
    material = {"publicKey": {"hint": "0"}, "tlogEntries": []}
    return msgspec.json.encode({"mediaType": BUNDLE, "verificationMaterial": material, "dsseEnvelope": envelope})
