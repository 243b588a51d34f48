"""Manifest: a module in an SKR; installed, watched, upgraded, and removed.

- `plan`: the rules, with what may be deleted and when
- `controller`: what triggers a reconcile, its settings and its state
- `snapshot`, `reading`: what is read; `apply`: what is changed; `status`: state, conditions and their reasons
- `rendering`, `images`, `pull_secrets`: the objects of a module as they are applied; `logins`: the login for its layer
- `managers`, `module_cr`, `state_checks`: by what a module's readiness is judged

What it shares with `sync_resource` is in `object_set`.
"""

from lifecycle_manager.module_installation.controller import ManifestSettings, setup
from lifecycle_manager.module_installation.logins import Logins
from lifecycle_manager.module_installation.pull_secrets import DEPLOYER
from lifecycle_manager.module_installation.sources import SourceSettings

__all__ = ["DEPLOYER", "Logins", "ManifestSettings", "SourceSettings", "setup"]
