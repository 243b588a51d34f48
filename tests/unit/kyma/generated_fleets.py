"""Generated fleets for Hypothesis: catalogs, requested modules, installed modules. Few names, so that they collide."""

from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import strategies as st

from lifecycle_manager.kyma.resolution import Installed
from lifecycle_manager.rollout.maintenance import MaintenancePolicy
from lifecycle_manager.rollout.schedule import Timing
from lifecycle_manager_api import KymaSpec, ModuleReleaseMeta, ModuleTemplate, names
from tests import builders

SUNDAY_NIGHT = {"days": ["Sun"], "begin": "22:00:00+00:00", "end": "02:00:00+00:00"}
POLICY = msgspec.convert({"default": SUNDAY_NIGHT}, MaintenancePolicy)
MODULES = ("api", "btp", "nats", "warden")
VERSIONS = ("1.0.0", "1.0.1", "1.1.0-rc", "2.0.0")
CHANNELS = ("fast", "regular", "rapid")
LABELS = st.dictionaries(st.sampled_from([names.BETA, names.INTERNAL, "team"]), st.sampled_from(["true", "a"]))


@st.composite
def offers(draw: st.DrawFn) -> tuple[list[ModuleTemplate], list[ModuleReleaseMeta]]:
    pairs = draw(st.lists(st.tuples(st.sampled_from(MODULES), st.sampled_from(VERSIONS)), unique=True, max_size=10))
    templates = [
        builders.template(
            module,
            version,
            installs=True,
            labels=draw(LABELS),
            mandatory=draw(st.integers(0, 5)) == 0,
            requires_downtime=draw(st.booleans()),
        )
        for module, version in pairs
    ]
    older = draw(
        st.dictionaries(st.tuples(st.sampled_from(MODULES), st.sampled_from(CHANNELS)), st.sampled_from(VERSIONS))
    )
    templates += [
        builders.template(
            module,
            version,
            channel=channel,
            installs=True,
            mandatory=draw(st.integers(0, 5)) == 0,
            requires_downtime=draw(st.booleans()),
        )
        for (module, channel), version in older.items()
    ]
    releases = []
    for module in draw(st.lists(st.sampled_from(MODULES), unique=True)):
        restriction: dict[str, Any] = draw(
            st.sampled_from([{}, {"beta": True}, {"internal": True}, {"kymaSelector": {"matchLabels": {"team": "a"}}}])
        )
        if draw(st.integers(0, 5)) == 0:
            releases.append(builders.release(module, mandatory=draw(st.sampled_from(VERSIONS))))
        else:
            channels: dict[str, Any] = draw(
                st.dictionaries(st.sampled_from(CHANNELS), st.sampled_from(VERSIONS), min_size=1)
            )
            releases.append(builders.release(module, spec=restriction, **channels))
    return templates, releases


SPECS = st.builds(
    lambda channel, modules: msgspec.convert({"channel": channel, "modules": list(modules.values())}, KymaSpec),
    st.sampled_from(CHANNELS),
    st.dictionaries(st.sampled_from((*MODULES, "unknown")), st.booleans()).map(
        lambda chosen: {name: {"name": name, "managed": managed} for name, managed in chosen.items()}
    ),
)
INSTALLED = st.dictionaries(
    st.sampled_from(MODULES), st.builds(Installed, st.sampled_from(VERSIONS), st.sampled_from(CHANNELS))
)
TIMINGS = st.builds(
    Timing,
    st.just(builders.NOW),
    st.dictionaries(st.sampled_from(MODULES), st.just(builders.NOW - timedelta(minutes=2))),
    st.sampled_from([timedelta(0), timedelta(minutes=5)]),
    st.sampled_from([None, POLICY]),
)
