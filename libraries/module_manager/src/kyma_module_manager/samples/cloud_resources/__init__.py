"""Cloud resources: NFS volumes and VPC peerings that a user configures, as objects in the SKR.

Run it by `kyma-module-manager run kyma_module_manager.samples.cloud_resources:objects`. The folder also has the other
parts of the module: `crd.yaml`, `module-template.yaml`, `module-release-meta.yaml`, an `example.yaml`, and the rights
of Lifecycle Manager in the SKR, `skr-role.yaml`.
"""

from kyma_module_manager.samples.cloud_resources.infrastructure import Infrastructure
from kyma_module_manager.samples.cloud_resources.manager import objects

__all__ = ["Infrastructure", "objects"]
