"""Signatures of component descriptors: who vouches for a version of a component, and for which content.

- `normal_form`: the part of a descriptor that is signed, as bytes that are the same whoever wrote the descriptor
- `keys`: public keys and certificates that are trusted
- `descriptors`: verifies and makes the signatures in a descriptor, as OCM's own tools do
- `cosign`: signatures of the artifact that holds a component
- `content`: the component that is installed, from the normal form and nothing else

Everything here is pure: bytes in, an answer or an exception out.
"""

from kyma_oci.signatures.content import signed_component
from kyma_oci.signatures.cosign import Cosigned, verify_cosigned
from kyma_oci.signatures.descriptors import sign, verify
from kyma_oci.signatures.keys import KeyUnreadable, TrustedKey, keys_in, private_key_in
from kyma_oci.signatures.normal_form import Unverified, normal_form

__all__ = [
    "Cosigned",
    "KeyUnreadable",
    "TrustedKey",
    "Unverified",
    "keys_in",
    "normal_form",
    "private_key_in",
    "sign",
    "signed_component",
    "verify",
    "verify_cosigned",
]
