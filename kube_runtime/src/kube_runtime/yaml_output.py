"""Writing an object as readable YAML that loads as the same object.

Keys stand in an order that does not depend on where the object came from, so that the same object is the same text.
"""

from collections.abc import Mapping
from typing import Any

import yaml

from kube_runtime.yaml_scalars import is_plain_text

__all__ = ["dump_yaml"]

_FIRST = {name: rank for rank, name in enumerate(("apiVersion", "kind", "metadata", "name", "namespace", "spec"))}
_BETWEEN, _LAST = len(_FIRST), len(_FIRST) + 1


def dump_yaml(document: Mapping[str, Any]) -> str:
    """Return the document as YAML in block style: identity first, `status` last, everything else by name."""
    return yaml.dump(
        _in_order(document),
        Dumper=_Dumper,
        default_flow_style=False,
        sort_keys=False,
        allow_unicode=True,
        width=1_000_000,
    )


def _in_order(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _in_order(value[key]) for key in sorted(value, key=_rank)}
    if isinstance(value, list | tuple):
        return [_in_order(each) for each in value]
    return value


def _rank(key: str) -> tuple[int, str]:
    return (_LAST if key == "status" else _FIRST.get(key, _BETWEEN), key)


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    if "\n" in text:
        style: str | None = "|"
    else:
        style = None if is_plain_text(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
