"""Which objects an operator asked for: by the API server where it can select them, by ourselves otherwise."""

from collections.abc import Iterable
from dataclasses import dataclass, fields

from lifecycle_manager_api import (
    Condition,
    Kyma,
    KymaModuleStatus,
    Manifest,
    ModuleConfig,
    ModuleReleaseMeta,
    ModuleRollout,
    State,
    SyncResource,
    find,
    names,
)
from lifecycle_manager_api.kyma_selection import KymaSelection

OF_KYMAS = {"region": names.REGION}
OF_MANIFESTS = {"kyma": names.KYMA_NAME, "module": names.MODULE_NAME, "channel": names.CHANNEL}
OF_CONFIGS = {"kyma": names.KYMA_NAME, "module": names.MODULE_NAME}
PAUSED = f"{names.SKIP_RECONCILIATION} in (true,True,TRUE)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection(KymaSelection):
    """What was asked for; empty fields select everything. `labels` is a label selector as kubectl takes it."""

    name: str = ""
    kyma: str = ""
    reason: str = ""
    paused: bool = False
    labels: str = ""

    def given(self) -> set[str]:
        """Return the names of the fields that select something."""
        return {each.name for each in fields(self) if getattr(self, each.name)}

    def label_selector(self, **by_field: str) -> str | None:
        """Return the selector for the API server: the given one, and a label for each of these fields that is set."""
        ours = [f"{label}={getattr(self, name)}" for name, label in by_field.items() if getattr(self, name)]
        paused = [PAUSED] if self.paused else []
        return ",".join([*([self.labels] if self.labels else []), *ours, *paused]) or None

    def selects_reason(self, conditions: Iterable[Condition]) -> bool:
        """Tell whether the reason why something is as it is was asked for: that of its condition Ready."""
        ready = find(conditions, "Ready")
        return not self.reason or (ready is not None and ready.reason == self.reason)

    def selects_state(self, state: State) -> bool:
        """Tell whether a state was asked for."""
        return not self.state or state.value == self.state

    def of_kyma(self, kyma: Kyma) -> bool:
        """Tell whether a Kyma was asked for: its modules count as one, not each by itself."""
        if (self.paused and not kyma.metadata.is_paused) or not self.selects_reason(kyma.status.conditions):
            return False
        region = kyma.metadata.labels.get(names.REGION, "")
        return self.selects(
            state=kyma.status.state.value, region=region, channel=kyma.spec.channel, modules=kyma.status.modules
        )

    def of_module(self, module: KymaModuleStatus) -> bool:
        """Tell whether a module of a Kyma was asked for."""
        named = not self.name or module.name == self.name
        return named and self.selects_state(module.state) and self.selects_module(module)

    def of_release(self, release: ModuleReleaseMeta) -> bool:
        """Tell whether a release was asked for."""
        spec = release.spec
        wanted = self.name or self.module
        channels = [(each.channel, each.version) for each in spec.channels]
        channels += [("", spec.mandatory.version)] if spec.mandatory is not None else []
        return (not wanted or wanted in {spec.module_name, release.metadata.name}) and any(
            (not self.channel or channel == self.channel) and (not self.version or version == self.version)
            for channel, version in channels or [("", "")]
        )

    def of_rollout(self, rollout: ModuleRollout) -> bool:
        """Tell whether a rollout was asked for."""
        spec = rollout.spec
        return self.module in ("", spec.module_name) and self.channel in ("", spec.channel)

    def of_manifest(self, manifest: Manifest) -> bool:
        """Tell whether a Manifest was asked for."""
        return (
            self.selects_state(manifest.status.state)
            and self.selects_reason(manifest.status.conditions)
            and (not self.paused or manifest.metadata.is_paused)
            and (not self.version or manifest.spec.version == self.version)
            and (not self.module or manifest.metadata.labels.get(names.MODULE_NAME) == self.module)
        )

    def of_part(self, part: ModuleConfig | SyncResource) -> bool:
        """Tell whether a ModuleConfig or SyncResource was asked for."""
        return (
            self.selects_state(part.status.state)
            and self.selects_reason(part.status.conditions)
            and (not self.module or part.spec.module == self.module)
            and (not self.kyma or part.spec.kyma == self.kyma)
        )
