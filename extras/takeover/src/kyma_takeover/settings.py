"""The options that only a control plane needs where the Lifecycle Manager in Go works as well."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from lifecycle_manager.options.model import DomainSettings
from lifecycle_manager.options.types import Texts


def _labels(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        if not re.fullmatch(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9._-]{1,63}=[A-Za-z0-9._-]{0,63}", text):
            raise ValueError(f"invalid label {text!r}: expected key=value")
    return texts


class TakeoverSettings(DomainSettings):
    """Which Kymas are managed while the Lifecycle Manager in Go manages the others."""

    kyma_selector: Annotated[Texts, AfterValidator(_labels)] = Field(
        default=(),
        validation_alias="kyma-selector",
        description="labels, as key=value, of the Kymas that are managed while the Lifecycle Manager in Go manages the "
        "others of this control plane and is kept from these (docs/migration.md); its Lease is neither waited for nor "
        "held. Default: all Kymas",
    )

    @property
    def labels(self) -> dict[str, str]:
        return dict(each.partition("=")[::2] for each in self.kyma_selector)
