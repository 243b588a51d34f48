"""Writes files of a project, which may have links to files of whoever runs this."""

from collections.abc import Collection
from pathlib import Path
from tempfile import NamedTemporaryFile

from kyma_module_manager.exceptions import DeclarationError


def check_target(target: Path, folders: Collection[Path]) -> None:
    """Raise DeclarationError where a file would be written through a link of the project, or over a device."""
    for each in (target, *folders):
        if each.is_symlink():
            raise DeclarationError(f"{each} is a symbolic link: remove it, or write elsewhere")
    if target.exists() and not target.is_file():
        raise DeclarationError(f"{target} is not a regular file: remove it, or write elsewhere")


def replace_file(target: Path, text: str) -> None:
    """Write a file as a whole in the place of what has its name, and through no link. Raises DeclarationError."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", dir=target.parent, prefix=f".{target.name}-", delete=False) as file:
            file.write(text)
        written = Path(file.name)
        written.chmod(0o644)
        written.replace(target)
    except OSError as error:
        raise DeclarationError(f"{target} can't be written: {error.strerror or error}") from None
