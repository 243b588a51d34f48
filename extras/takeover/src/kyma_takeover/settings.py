"""The options that only a control plane needs where the Lifecycle Manager in Go works as well."""

import re
from dataclasses import dataclass
from typing import Annotated

from lifecycle_manager.contract.options import After, Texts, option


def _labels(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        if not re.fullmatch(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9._-]{1,63}=[A-Za-z0-9._-]{0,63}", text):
            raise ValueError(f"invalid label {text!r}: expected key=value")
    return texts


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeoverSettings:
    """Which Kymas are managed while the Lifecycle Manager in Go manages the others."""

    kyma_selector: Annotated[Texts, After(_labels)] = option(
        (),
        "kyma-selector",
        "labels, as key=value, of the Kymas that are managed while the Lifecycle Manager in Go manages the others of "
        "this control plane and is kept from these (docs/migration.md); its Lease is neither waited for nor held. "
        "Default: all Kymas",
    )

    @property
    def labels(self) -> dict[str, str]:
        return dict(each.partition("=")[::2] for each in self.kyma_selector)
