"""Real manifests of others, which are never copied here: `NAME-v1.yaml.xz` and `NAME-v2.yaml.xz` in a folder."""

import lzma
import os
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "KLM_REAL_MANIFESTS"
BESIDE = Path(__file__).parents[3] / "shared" / "real-manifests"
FEW = 1
"""How many of the folder beside the checkout the tests take each time: the smallest ones; more take minutes."""
WITHOUT = f"needs real manifests, NAME-v1.yaml.xz and NAME-v2.yaml.xz, in the folder {VARIABLE} or beside the checkout"


@dataclass(frozen=True)
class RealManifest:
    """Two versions of an installation manifest."""

    name: str
    files: tuple[Path, Path]

    @property
    def texts(self) -> tuple[str, str]:
        old, new = (lzma.decompress(each.read_bytes()).decode() for each in self.files)
        return old, new

    @property
    def size(self) -> int:
        """The size of both files."""
        return sum(each.stat().st_size for each in self.files)

    def __str__(self) -> str:
        return self.name


def found() -> tuple[RealManifest, ...]:
    """Return the manifests there are: of the folder that the environment names, else some of the one beside."""
    named = os.environ.get(VARIABLE)
    if named:
        return in_folder(Path(named))
    return tuple(sorted(in_folder(BESIDE), key=lambda each: each.size)[:FEW])


def in_folder(folder: Path) -> tuple[RealManifest, ...]:
    """Return the manifests in a folder that are there in both versions."""
    pairs = ((old, old.with_name(old.name.replace("-v1.", "-v2."))) for old in sorted(folder.glob("*-v1.yaml.xz")))
    return tuple(RealManifest(old.name.removesuffix("-v1.yaml.xz"), (old, new)) for old, new in pairs if new.exists())
