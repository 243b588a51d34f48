"""Signatures of component descriptors: who vouches for a version of a component, and for which content.

- `normal_form`: the part of a descriptor that is signed, as bytes that are the same whoever wrote the descriptor
- `keys`: public keys and certificates that are trusted
- `descriptors`: verifies and makes the signatures in a descriptor, as OCM's own tools do
- `cosign`: signatures of the artifact that holds a component
- `content`: the component that is installed, from the normal form and nothing else

Everything here is pure: bytes in, an answer or an exception out.
"""
