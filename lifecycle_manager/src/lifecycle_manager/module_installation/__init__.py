"""Manifest: a module in an SKR; installed, watched, upgraded, and removed.

- `controller`: what triggers a reconcile, and what it does, from top to bottom; `rules` decides in between
- `plan`: the removal in `steps`, in an order that keeps what users have
- `snapshot`, `reading`: what is read; `apply`: what is changed; `status`: state, conditions, their reasons
- `rendering`, `images`, `pull_secrets`: the objects of a module as they are applied; `logins`: the login for its layer
- `managers`, `module_cr`, `state_checks`: by what a module's readiness is judged

What it shares with `sync_resource` is in `object_set`.
"""

from lifecycle_manager.module_installation.controller import setup
from lifecycle_manager.module_installation.logins import Logins
from lifecycle_manager.options.modules import DEPLOYER, ManifestSettings, SourceSettings

__all__ = ["DEPLOYER", "Logins", "ManifestSettings", "SourceSettings", "setup"]
