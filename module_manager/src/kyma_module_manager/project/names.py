"""The names that follow from a module's name: of its kind, its API group, its Python package."""

import re
from dataclasses import dataclass

from kyma_module_manager.exceptions import DeclarationError

__all__ = ["ModuleNames"]

MODULE_NAME = re.compile(r"[a-z]{3,}(-[a-z]{3,})*")
KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
GROUP = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
LONGEST_MODULE_NAME = 64


@dataclass(frozen=True)
class ModuleNames:
    """A module's name and what is derived from it unless it is given."""

    module: str
    kind: str
    group: str

    @classmethod
    def of(cls, module: str, *, kind: str | None = None, group: str | None = None) -> "ModuleNames":
        """Derive the names of a module. Raises DeclarationError where Kyma or Kubernetes would refuse one."""
        if not MODULE_NAME.fullmatch(module) or len(module) > LONGEST_MODULE_NAME:
            raise DeclarationError(
                f"{module!r} is no module name: words of three or more lower-case letters, joined by hyphens"
            )
        names = cls(module, kind or _camel_case(module), group or f"{module}.kyma-project.io")
        if not KIND.fullmatch(names.kind):
            raise DeclarationError(f"{names.kind!r} is no kind: letters and digits, the first a capital")
        if not GROUP.fullmatch(names.group):
            raise DeclarationError(f"{names.group!r} is no API group: a DNS name such as {module}.example.com")
        return names

    @property
    def package(self) -> str:
        """Name of the Python package."""
        return self.module.replace("-", "_")

    @property
    def singular(self) -> str:
        """The kind in lower case, as kubectl takes it."""
        return self.kind.lower()

    @property
    def plural(self) -> str:
        """The resource in URLs."""
        return f"{self.singular}es" if self.singular.endswith(("s", "x", "ch", "sh")) else f"{self.singular}s"

    def as_mapping(self) -> dict[str, str]:
        """Return every name under the word by which a template asks for it."""
        words = ("module", "kind", "group", "package", "singular", "plural")
        return {word: getattr(self, word) for word in words}


def _camel_case(module: str) -> str:
    return "".join(word.capitalize() for word in module.split("-"))
