"""Cloud resources: NFS volumes and VPC peerings that a user asks for, as objects in the user's cluster.

Run it by `kyma-module-manager run kyma_module_manager.samples.cloud_resources:objects`. The folder also holds what
makes it a module: `crd.yaml`, `module-template.yaml`, `module-release-meta.yaml`, an `example.yaml` and, in
`skr-role.yaml`, what Lifecycle Manager must be allowed in the user cluster for it.
"""

from kyma_module_manager.samples.cloud_resources.infrastructure import Infrastructure
from kyma_module_manager.samples.cloud_resources.manager import objects

__all__ = ["Infrastructure", "objects"]
