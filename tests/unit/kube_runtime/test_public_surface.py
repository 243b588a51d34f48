"""What the package offers is what it says it offers."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import kube_runtime
from kube_runtime import exceptions


def test_every_exception_is_offered_and_drawn_in_the_tree() -> None:
    types = {name: value for name, value in vars(exceptions).items() if isinstance(value, type)}
    declared = [name for name, value in types.items() if issubclass(value, Exception)]
    assert {*declared} <= {*kube_runtime.__all__}
    tree = exceptions.__doc__ or ""
    assert all(name in tree for name in declared)


SLOW = {
    "aiohttp",
    "cryptography",
    "kubernetes_asyncio",
    "kyma_certs",
    "msgspec",
    "opentelemetry",
    "prometheus_client",
    "yaml",
}


@pytest.mark.parametrize(
    ("code", "needed"),
    [
        ("import kube_runtime", set()),
        ("from kube_runtime import KubeError, TerminalError", set()),
        ("from kube_runtime import Resource", set()),
        ("from kube_runtime import dump_yaml", {"msgspec", "yaml"}),
        (
            "from kube_runtime import Client, Informer, Manager, run",
            {"aiohttp", "msgspec", "prometheus_client", "yaml"},
        ),
        ("from kube_runtime.cli import parser; parser().format_help()", set()),
        ("import kube_runtime.command", {"aiohttp", "msgspec", "prometheus_client", "yaml"}),
    ],
)
def test_slow_libraries_are_imported_where_they_are_needed(code: str, needed: set[str]) -> None:
    code = f"import sys; {code}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert SLOW & {*done.stdout.split()} == needed
    assert "aiohttp.web" not in done.stdout.split()


def test_names_are_found_where_types_are_checked() -> None:
    tree = ast.parse(Path(str(kube_runtime.__file__)).with_suffix(".pyi").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    names = {name.asname: str(node.module) for node in imports for name in node.names if name.asname == name.name}
    assert set(names) == {*kube_runtime.__all__} <= {*dir(kube_runtime)}
    for name, module in names.items():
        assert getattr(kube_runtime, name) is getattr(import_module(module), name)
    with pytest.raises(AttributeError, match="no attribute 'Managers'"):
        kube_runtime.Managers  # type: ignore[attr-defined]  # noqa: B018 - reading it is the test
