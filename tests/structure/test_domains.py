"""The rules of the Lifecycle Manager's structure (docs/architecture.md), held against its source."""

import ast
import asyncio
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kube_runtime import Client, Controller, KubeconfigPolicy
from lifecycle_manager.app import lifecycle_manager
from lifecycle_manager.settings import Settings

SOURCE = Path("lifecycle_manager/src/lifecycle_manager")
DOMAINS = (
    "catalog_sync",
    "istio",
    "kyma",
    "mandatory_modules",
    "module_config",
    "module_cr_status",
    "module_installation",
    "module_rollouts",
    "skr_webhook",
    "sync_resource",
    "watcher_crs",
)
"""The folders that reconcile a resource. `module_catalog` and `rollout` hold rules alone."""

PLAIN = {
    "ca": "takes one step of a rotation; one Secret is written",
    "descriptor": "looks a descriptor up for a cache; no resource is written",
    "module-template": "reports on a template by itself; one status is written",
    "resync": "publishes a signal at a limited rate",
    "skr-token": "renews the token of an access Secret; one Secret is written",
    "skr-probe": "sends one request to an SKR and publishes a signal",
    "verification": "verifies a descriptor for a cache; one condition is written",
}
"""Controllers below the domains that reconcile by one function, and why steps would add nothing."""

LINEAR = (
    "catalog_sync",
    "istio",
    "kyma",
    "mandatory_modules",
    "module_config",
    "module_cr_status",
    "module_installation",
    "module_rollouts",
    "skr_webhook",
    "sync_resource",
    "watcher_crs",
)
"""The domains whose reconcile is one function, from the top to the bottom, between pure decisions."""
FILES = ("controller", "snapshot", "plan", "apply", "status")
LINEAR_FILES = ("controller", "rules", "status")
PURE = ("plan", "rules", "status")
PURE_FILES = [
    SOURCE / domain / f"{part}.py"
    for domain in (*DOMAINS, "kyma/deletion", "object_set")
    for part in PURE
    if (SOURCE / domain / f"{part}.py").exists()
]
KEYS = {"ObjectKey", "ModuleKey", "ReleaseKey"}
IMPURE = {"asyncio", "time", "random", "structlog", "aiohttp", "httpx", "socket"}
MAX_APP_LINES = 160
MAX_IMPORTS = 30
"""How many modules of our own one module imports at most; `app` alone, which composes all of them, may import more."""


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(), str(file))


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(SOURCE).with_suffix("").parts)


@pytest.mark.parametrize("domain", DOMAINS)
def test_each_domain_has_the_same_files(domain: str) -> None:
    present = {file.stem for file in (SOURCE / domain).glob("*.py")}
    assert set(LINEAR_FILES if domain in LINEAR else FILES) <= present


@pytest.mark.parametrize("domain", DOMAINS)
def test_what_triggers_a_domain_is_in_its_controller(domain: str) -> None:
    tree = tree_of(SOURCE / domain / "controller.py")
    functions = [each.name for each in tree.body if isinstance(each, ast.FunctionDef)]
    assert any(name.startswith("setup") for name in functions)


@pytest.mark.parametrize("domain", DOMAINS)
def test_no_domain_imports_another_one(domain: str) -> None:
    others = {other for other in DOMAINS if other != domain}
    found = [
        f"{name_of(file)} imports {name}"
        for file in (SOURCE / domain).rglob("*.py")
        for name in imports_of(tree_of(file))
        if name.startswith("lifecycle_manager.") and name.split(".")[1] in others
    ]
    assert not found


@pytest.mark.parametrize("file", PURE_FILES, ids=name_of)
def test_decisions_are_pure(file: Path) -> None:
    tree = tree_of(file)
    assert not [each.name for each in ast.walk(tree) if isinstance(each, ast.AsyncFunctionDef)]
    assert not IMPURE & {name.partition(".")[0] for name in imports_of(tree)}
    clocks = [each.lineno for each in ast.walk(tree) if isinstance(each, ast.Attribute) and asks_a_clock(each)]
    assert not clocks, "the time comes from the snapshot"


def test_no_reconciler_keeps_a_dictionary_by_key() -> None:
    found = [
        f"{name_of(file)}:{each.lineno}"
        for file in modules()
        for each in ast.walk(tree_of(file))
        if isinstance(each, ast.AnnAssign) and is_kept(each) and is_dictionary_by_key(each.annotation)
    ]
    assert not found, "what is kept for a key is the state of its controller"


def test_no_callback_is_assigned_to_an_object_after_it_was_made() -> None:
    found = [
        f"{name_of(file)}:{target.lineno} {ast.unparse(target)}"
        for file in modules()
        for each in ast.walk(tree_of(file))
        if isinstance(each, ast.Assign)
        for target in each.targets
        if isinstance(target, ast.Attribute) and is_callback(target, each.value)
    ]
    assert not found, "pass it to the constructor, or publish a signal"


def test_the_composition_fits_on_three_screens() -> None:
    assert len((SOURCE / "app.py").read_text().splitlines()) < MAX_APP_LINES


def test_no_module_imports_more_than_it_may() -> None:
    counts = {name_of(file): len(our_modules(file)) for file in modules() if file.name not in {"app.py", "__init__.py"}}
    assert not {name: count for name, count in counts.items() if count > MAX_IMPORTS}


def imports_of(tree: ast.Module) -> Iterator[str]:
    for each in ast.walk(tree):
        if isinstance(each, ast.Import):
            yield from (alias.name for alias in each.names)
        elif isinstance(each, ast.ImportFrom) and each.module:
            yield each.module


def our_modules(file: Path) -> set[str]:
    return {name for name in imports_of(tree_of(file)) if name.startswith("lifecycle_manager.")}


def asks_a_clock(node: ast.Attribute) -> bool:
    """Tell whether the time is asked for, other than as a field of a snapshot: `snapshot.now`."""
    of_a_type = isinstance(node.value, ast.Name) and node.value.id in {"datetime", "date"}
    return node.attr in {"utcnow", "monotonic"} or (node.attr in {"now", "today"} and of_a_type)


def is_kept(node: ast.AnnAssign) -> bool:
    """Tell whether an annotated assignment is a field of a class or an attribute, not a local variable."""
    return isinstance(node.target, ast.Attribute) or (isinstance(node.target, ast.Name) and node.target.id[0] == "_")


def is_dictionary_by_key(annotation: ast.expr) -> bool:
    if not isinstance(annotation, ast.Subscript) or not isinstance(annotation.slice, ast.Tuple):
        return False
    container, first = ast.unparse(annotation.value), ast.unparse(annotation.slice.elts[0])
    return container.endswith(("dict", "Dict", "Dictionary")) and first in KEYS


def is_callback(target: ast.Attribute, value: ast.expr) -> bool:
    """Tell whether a function is assigned to another object, as in `controllers.on_recovery = self._enqueue_all`."""
    of_another_object = ast.unparse(target.value) not in {"self", "cls"}
    is_function = isinstance(value, ast.Lambda) or ast.unparse(value).startswith("partial(")
    return of_another_object and (target.attr.startswith("on_") or is_function)


def test_what_modules_have_in_kcp_is_watched_in_all_namespaces() -> None:
    """A module may have a namespace of its own; a second informer for one namespace would be another watch."""
    kinds = {"MODULE_CONFIGS", "SYNC_RESOURCES"}
    found = [
        f"{name_of(file)}:{call.lineno}"
        for file in modules()
        for call in ast.walk(tree_of(file))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "informer"
        and kinds & {each.id for each in call.args if isinstance(each, ast.Name)}
        and not any(each.arg == "namespace" and is_none(each.value) for each in call.keywords)
    ]
    assert not found


def is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


Composed = dict[str, Callable[..., Any]]
"""What reconciles the keys of each controller, by its name."""


@pytest.fixture(scope="module")
def composed() -> Composed:
    """The controllers of the whole service with all its options, of which none runs."""
    found: Composed = {}
    reconciles = Controller.reconciles

    def record(controller: Any, reconcile: Callable[..., Any], **options: Any) -> None:
        found[controller.name] = reconcile
        reconciles(controller, reconcile, **options)

    async def compose() -> None:
        cluster = {"name": "kcp", "cluster": {"server": "http://127.0.0.1:1"}}
        context = {"name": "kcp", "context": {"cluster": "kcp", "user": "kcp"}}
        kubeconfig = {"clusters": [cluster], "contexts": [context], "users": [{"name": "kcp", "user": {}}]}
        options: dict[str, Any] = {"watcher_virtual_services": True, "trusted_proxy_cidrs": ["10.0.0.0/8"]}
        policy = KubeconfigPolicy(allow_insecure=True)
        async with (
            await Client.from_kubeconfig(kubeconfig | {"current-context": "kcp"}, policy=policy) as client,
            lifecycle_manager(Settings(options), client),
        ):
            pass

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Controller, "reconciles", record)
        asyncio.run(compose())
    return found


def test_each_controller_of_a_domain_reconciles_in_one_function(composed: Composed) -> None:
    domains = {name: domain_of(reconcile) for name, reconcile in composed.items()}
    linear = {name for name, domain in domains.items() if domain in LINEAR}
    assert domains.keys() - linear == PLAIN.keys()
    assert {domains[name] for name in linear} == set(LINEAR)


@pytest.mark.parametrize("domain", LINEAR)
def test_linear_reconcile_is_in_the_controller_and_fits_on_a_screen(domain: str) -> None:
    found = [
        each
        for each in ast.walk(tree_of(SOURCE / domain / "controller.py"))
        if isinstance(each, ast.AsyncFunctionDef) and each.name == "reconcile"
    ]
    assert found
    for each in found:
        assert each.end_lineno is not None
        assert each.end_lineno - each.lineno < 60


def domain_of(reconcile: Callable[..., Any]) -> str:
    """Return the folder of a function; of a method, that of its class."""
    return str(reconcile.__module__).split(".")[1]


def test_no_modules_of_a_package_import_each_other_in_a_circle() -> None:
    for package in sorted((*Path().glob("*/src/*/__init__.py"), *Path().glob("*/*/src/*/__init__.py"))):
        folder = package.parent
        modules_of = {
            ".".join(file.relative_to(folder.parent).with_suffix("").parts): file for file in folder.rglob("*.py")
        }
        arrows = {
            name: {target for target in imports_of(tree_of(file)) if target in modules_of and target != name}
            for name, file in modules_of.items()
            if file.name != "__init__.py"
        }
        while removable := {name for name, targets in arrows.items() if not targets & arrows.keys()}:
            arrows = {name: targets for name, targets in arrows.items() if name not in removable}
        assert not arrows, f"{folder.name}: {sorted(arrows)}"
