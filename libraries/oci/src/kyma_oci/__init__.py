"""OCI registries: pull, push, login, and component descriptors of the Open Component Model.

- `registries`: pulls and pushes; `requests`: redirects, tokens, and where credentials are sent
- `limits`: the limits of size, number and time
- `references`: layers and artifacts of a repository; `hosts`: the hosts that are allowed
- `credentials`: the login for a registry
- `archives`: from the bytes of a layer to the text in it, and back
- `signatures`: of component descriptors, and by cosign
- `descriptor`: reads component descriptors, `packing` writes them, `components` looks them up in a registry
- `problems`: everything that can go wrong, with the reasons for conditions
"""

from kyma_oci.archives import text_in, unpacking_size
from kyma_oci.components import Components, FoundDescriptor
from kyma_oci.credentials import DockerConfig, Login, LoginFor, config_in_secret, login_in
from kyma_oci.descriptor import (
    Component,
    ComponentVersion,
    DescriptorNotFound,
    DescriptorUnreadable,
    DescriptorUnverified,
    LookupFailed,
    component_of,
    is_left_out,
)
from kyma_oci.hosts import ANY_HOST, AllowedHosts
from kyma_oci.packing import Blob
from kyma_oci.problems import CredentialsInvalid, PushRefused, SourceError, SourceInvalid, SourceUnreachable
from kyma_oci.references import Artifact, Layer, artifact_in, host_of, layer_in, netloc_of
from kyma_oci.registries import Registries, machine_trust

__all__ = [
    "ANY_HOST",
    "AllowedHosts",
    "Artifact",
    "Blob",
    "Component",
    "ComponentVersion",
    "Components",
    "CredentialsInvalid",
    "DescriptorNotFound",
    "DescriptorUnreadable",
    "DescriptorUnverified",
    "DockerConfig",
    "FoundDescriptor",
    "Layer",
    "Login",
    "LoginFor",
    "LookupFailed",
    "PushRefused",
    "Registries",
    "SourceError",
    "SourceInvalid",
    "SourceUnreachable",
    "artifact_in",
    "component_of",
    "config_in_secret",
    "host_of",
    "is_left_out",
    "layer_in",
    "login_in",
    "machine_trust",
    "netloc_of",
    "text_in",
    "unpacking_size",
]
