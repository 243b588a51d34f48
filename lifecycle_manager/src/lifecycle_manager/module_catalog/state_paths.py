"""The paths of `spec.customStateCheck`, as templates have them: without the leading `$`, with or without a dot."""

from functools import lru_cache

import jsonpath


class PathBroken(ValueError):
    """A text is no JSONPath."""


@lru_cache(maxsize=512)
def state_path(text: str) -> "jsonpath.JSONPath | jsonpath.CompoundJSONPath":
    """Return a path that values are found by. Raises PathBroken."""
    relative = text.removeprefix("$")
    try:
        return jsonpath.compile(f"${relative}" if relative.startswith((".", "[")) else f"$.{relative}")
    except jsonpath.JSONPathError as error:
        raise PathBroken(str(error)) from None
