"""Test kit for module teams: a Module CR in, objects out, by the very code that runs in production.

    rendered = await render_module_cr(objects, Path("module/example.yaml"))
    assert rendered.one("ConfigMap", "default-greeting", "kyma-system")["data"] == {"greeting": "hello"}

`kyma_module_manager.testing.plugin` is a pytest plugin that runs a manager against a real API server instead.
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
