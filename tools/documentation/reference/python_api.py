"""The public names of the packages for Python developers: signatures with types, and docstrings."""

import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

PACKAGES = {
    "kyma_module_manager": "The SDK for Module Managers",
    "kyma_module_manager.testing": "Its test kit",
    "kube_runtime": "The runtime for controllers",
    "kube_crds": "CRDs from structs",
    "kube_simulation": "Simulated API servers",
    "lifecycle_manager_api": "The resources as types",
    "kyma_oci": "Registries",
    "kyma_certs": "Certificates and signatures",
}
ALIASES = {
    "lifecycle_manager_api.ConditionStatus": "`True`, `False` or `Unknown`, as a text.",
    "lifecycle_manager_api.CustomResourcePolicy": "Who creates the default Module CR: `CreateAndDelete` or `Ignore`.",
    "lifecycle_manager_api.PodSecurityLevel": "A level of the Pod Security Standards.",
    "kube_crds.ConditionStatus": "`True`, `False` or `Unknown`, as a text.",
    "kyma_oci.LoginFor": "A function that returns the login for a registry's host.",
}
"""Names of types, which have no docstring of their own."""


def pages() -> Mapping[str, str]:
    """Return a page for each package, by its name."""
    return {name: _page(name, title) for name, title in PACKAGES.items()}


def items() -> Iterator[tuple[str, str]]:
    """Yield all public names, and the public methods of classes, with their docstrings."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            yield f"{package}.{name}", _text(package, module, name)
            yield from ((f"{package}.{name}.{method}", doc) for method, _, doc in _methods(getattr(module, name)))


def _page(package: str, title: str) -> str:
    module = importlib.import_module(package)
    sections = (_section(package, module, name) for name in sorted(module.__all__, key=str.lower))
    return f"# {package}\n\n{title}. {inspect.getdoc(module) or ''}\n\n" + "\n".join(sections)


def _section(package: str, module: ModuleType, name: str) -> str:
    value = getattr(module, name)
    text = f"## {name}\n\n"
    if signature := _signature(name, value):
        text += f"```python\n{signature}\n```\n\n"
    text += _plain(_text(package, module, name)) + "\n"
    for method, shown, doc in _methods(value):
        text += f"\n### {name}.{method}\n\n```python\n{shown}\n```\n\n{_plain(doc)}\n"
    return text


def _text(package: str, module: ModuleType, name: str) -> str:
    value = getattr(module, name)
    if alias := ALIASES.get(f"{package}.{name}"):
        return alias
    if not (inspect.isclass(value) or inspect.isroutine(value) or isinstance(value, ModuleType)):
        shown = _short(repr(value))
        return f"A `{type(value).__name__}`." if shown.startswith("<") else f"`{shown}`"
    return inspect.getdoc(value) or ""


def _signature(name: str, value: Any) -> str:
    """Return the definition with types; nothing for a value."""
    if inspect.isclass(value) and issubclass(value, BaseException):
        return f"class {name}({', '.join(each.__name__ for each in value.__bases__)})"
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return ""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # an enumeration, or a class in C
        return f"class {name}"
    keyword = "class" if inspect.isclass(value) else "async def" if inspect.iscoroutinefunction(value) else "def"
    return _wrapped(f"{keyword} {name}", signature)


def _methods(value: Any) -> Iterator[tuple[str, str, str]]:
    """Yield the public methods that a class defines itself or has from ours, with signature and docstring."""
    if not inspect.isclass(value) or issubclass(value, BaseException):
        return
    ours = (vars(each) for each in reversed(value.__mro__) if each.__module__.partition(".")[0] in PACKAGES)
    members = {name: member for each in ours for name, member in each.items()}
    for name, member in sorted(members.items()):
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if name.startswith("_") or not inspect.isfunction(function) or not (doc := inspect.getdoc(function)):
            continue
        kind = "async def" if inspect.iscoroutinefunction(function) else "def"
        yield name, _wrapped(f"{kind} {name}", inspect.signature(function)), doc


def _wrapped(start: str, signature: inspect.Signature) -> str:
    """Return a definition on one line where it fits, else with a line for each parameter."""
    text = _short(str(signature)) if "(" not in str(signature)[1:].partition(")")[0] else " " * 100
    if len(start) + len(text) <= 100:
        return start + text
    parameters = [_parameter(each) for each in signature.parameters.values()]
    if any(each.kind is each.KEYWORD_ONLY for each in signature.parameters.values()):
        first = next(i for i, each in enumerate(signature.parameters.values()) if each.kind is each.KEYWORD_ONLY)
        if not any(each.kind is each.VAR_POSITIONAL for each in signature.parameters.values()):
            parameters.insert(first, "*")
    returns = signature.return_annotation
    arrow = "" if returns is inspect.Signature.empty else f" -> {_short(inspect.formatannotation(returns))}"
    return f"{start}(\n    " + ",\n    ".join(parameters) + f",\n){arrow}"


def _parameter(parameter: inspect.Parameter) -> str:
    """Return a parameter with its type and default; `...` stands for a default that is long."""
    if len(repr(parameter.default)) > 60 and parameter.default is not inspect.Parameter.empty:
        return _short(str(parameter.replace(default=...))).replace("Ellipsis", "...")
    return _short(str(parameter))


def _short(text: str) -> str:
    """Return a text of types without the modules that define them, and without addresses in memory."""
    text = re.sub(r"<(?:function|built-in function|bound method) ([\w.<>]+)(?: at 0x\w+)?>", r"\1", text)
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z_a-z])", "", re.sub(r" at 0x[0-9a-f]+", "", text))


def _plain(text: str) -> str:
    """Return a docstring as Markdown: an example that is indented stays code, and nothing else is one by mistake."""
    return re.sub(r"(?m)^(#+ )", r"\\\1", text).replace("<", "&lt;") if "\n    " not in text else text
