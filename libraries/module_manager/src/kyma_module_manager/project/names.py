"""Names derived from a module's name: its kind, API group and Python package."""

import re
import sys
from dataclasses import dataclass
from keyword import iskeyword

from kyma_module_manager.exceptions import DeclarationError

MODULE_NAME = re.compile(r"[a-z]{3,}(-[a-z]{3,})*")
KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
GROUP = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
MAX_MODULE_NAME_LENGTH = 41
"""So that the namespace of its Leases, module-manager-MODULE-leases, has at most 63 characters."""
MAX_LABEL_LENGTH = 63
"""Of any module: its name is the value of a label."""


@dataclass(frozen=True)
class ModuleNames:
    """A module's name, and the names that are derived from it unless they are given."""

    module: str
    kind: str
    group: str

    @classmethod
    def of(cls, module: str, *, kind: str | None = None, group: str | None = None) -> "ModuleNames":
        """Derive the names of a module. Raises DeclarationError if Kyma or Kubernetes would reject one."""
        if not MODULE_NAME.fullmatch(module) or len(module) > MAX_MODULE_NAME_LENGTH:
            raise DeclarationError(
                f"invalid module name {module!r}: expected words of three or more lower-case letters, joined by "
                f"hyphens, at most {MAX_MODULE_NAME_LENGTH} characters"
            )
        usual = "".join(map(str.capitalize, module.split("-")))
        names = cls(module, kind or usual, group or f"{module}.kyma-project.io")
        if not KIND.fullmatch(names.kind):
            raise DeclarationError(f"invalid kind {names.kind!r}: expected letters and digits, the first a capital")
        if not GROUP.fullmatch(names.group):
            raise DeclarationError(
                f"invalid API group {names.group!r}: expected a DNS name such as {module}.example.com"
            )
        return names

    @property
    def package(self) -> str:
        """Name of the Python package, which hides none of Python's own."""
        package = self.module.replace("-", "_")
        return f"{package}_module" if iskeyword(package) or package in sys.stdlib_module_names else package

    @property
    def singular(self) -> str:
        """The kind in lower case, as kubectl takes it."""
        return self.kind.lower()

    @property
    def plural(self) -> str:
        """The resource in URLs."""
        if self.singular.endswith(("s", "x", "ch", "sh")):
            return f"{self.singular}es"
        if self.singular.endswith("y") and self.singular[-2:-1] not in set("aeiou"):
            return f"{self.singular[:-1]}ies"
        return f"{self.singular}s"

    def as_mapping(self) -> dict[str, str]:
        """Return the names by the placeholders of the template files."""
        words = ("module", "kind", "group", "package", "singular", "plural")
        return {word: getattr(self, word) for word in words}
