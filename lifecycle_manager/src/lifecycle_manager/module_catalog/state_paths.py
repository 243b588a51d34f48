"""The JSONPaths of `spec.customStateCheck`: without the leading `$`, with or without a leading dot."""

from functools import lru_cache

import jsonpath


class PathBroken(ValueError):
    """A text is not a JSONPath."""


@lru_cache(maxsize=512)
def state_path(text: str) -> "jsonpath.JSONPath | jsonpath.CompoundJSONPath":
    """Return the compiled path. Raises PathBroken."""
    relative = text.removeprefix("$")
    try:
        return jsonpath.compile(f"${relative}" if relative.startswith((".", "[")) else f"$.{relative}")
    except jsonpath.JSONPathError as error:
        raise PathBroken(str(error)) from None
