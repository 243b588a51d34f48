"""Complete modules: each folder has a manager and the YAML of its module."""

from importlib.resources import files
from importlib.resources.abc import Traversable

__all__ = ["sample_file"]


def sample_file(sample: str, name: str) -> Traversable:
    """Return a file of a sample, such as `sample_file("cloud_resources", "crd.yaml")`."""
    found = files(__name__) / sample / name
    if not found.is_file():
        raise FileNotFoundError(f"the sample {sample} has no {name}")
    return found
