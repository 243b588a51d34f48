"""What a reconcile writes once Module CRs were read, with the names and the quota that it works out on the way."""

from collections.abc import Collection
from dataclasses import replace

from lifecycle_manager.module_config.rules import Write, acceptable, config_names, writes_of
from lifecycle_manager.module_config.snapshot import ModuleConfigSnapshot


def named(seen: ModuleConfigSnapshot, taken: Collection[str] = ()) -> ModuleConfigSnapshot:
    """Return the snapshot with the names of ModuleConfigs; others have the `taken` ones."""
    own, reading = {each.metadata.name for each in seen.existing}, seen.reading
    found = config_names(
        seen.kyma, seen.module, reading.default, reading.found, own=own, is_taken=lambda name: name in taken
    )
    return replace(seen, names=found)


def writes_after(seen: ModuleConfigSnapshot, taken: Collection[str] = ()) -> tuple[Write, ...]:
    """Return the writes that follow what was read."""
    seen = named(seen, taken)
    return writes_of(replace(seen, accepted=acceptable(seen)))
