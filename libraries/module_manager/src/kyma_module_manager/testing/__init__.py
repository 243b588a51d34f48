"""Test kit for module teams: runs a manager on a Module CR by the code of production.

    rendered = await render_module_cr(objects, Path("module/example.yaml"))
    assert rendered.one("ConfigMap", "default-greeting", "kyma-system")["data"] == {"greeting": "hello"}

The pytest plugin `kyma_module_manager.testing.plugin` runs a manager against a real API server; it needs the extra
`testing`.
"""

from kyma_module_manager.testing.harness import ManagerHarness, run_manager
from kyma_module_manager.testing.kit import RenderedObjects, module_config_of, render_module_cr, synced_object

__all__ = [
    "ManagerHarness",
    "RenderedObjects",
    "module_config_of",
    "render_module_cr",
    "run_manager",
    "synced_object",
]
