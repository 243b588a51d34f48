"""The timing of changes: since when a release is as it is, and a maintenance policy that is read when it changes."""

import json
import os
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from kube_runtime import ObjectKey
from kube_runtime.informer.cache import Cache
from lifecycle_manager.contract.resources import DatedReleaseMeta
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.options.kymas import RolloutSettings
from lifecycle_manager.process.telemetry import policy_readable
from lifecycle_manager.rollout.schedule import Schedule
from tests import builders
from tests.clocks import ManualClock

GOOD = json.dumps({"default": {"days": ["Sat"], "begin": "00:00:00+00:00", "end": "02:00:00+00:00"}})
METRIC = "lifecycle_mgr_maintenance_window_config_read_success"


def schedule(cache: Cache[Any], policy: Path | None) -> tuple[Schedule, CollectorRegistry]:
    registry = CollectorRegistry()
    releases: Any = SimpleNamespace(cache=cache)
    settings = RolloutSettings(policy_file=policy)
    offers: Any = SimpleNamespace(current=lambda: Offer.of((), cache.list()))
    empty: Any = SimpleNamespace(cache=Cache({}), by_index=lambda *_: ())
    planned = Schedule(releases, empty, empty, empty, offers, ManualClock(), settings, policy_readable(registry))
    return planned, registry


def release(*times: str) -> DatedReleaseMeta:
    document: dict[str, Any] = msgspec.to_builtins(builders.release("api", regular="1.0.0"))
    document["metadata"]["managedFields"] = [{"manager": "team", "time": time} for time in times]
    return msgspec.convert(document, DatedReleaseMeta)


def test_release_is_as_old_as_its_last_write() -> None:
    cache: Cache[Any] = Cache({})
    planned, _ = schedule(cache, None)
    assert planned.timing().released_at == {}
    key = ObjectKey("kcp-system", "api")
    cache.put(key, release("2026-11-01T10:00:00Z", "2026-11-01T11:00:00Z"))
    assert planned.timing().released_at == {"api": datetime.fromisoformat("2026-11-01T11:00:00+00:00")}
    cache.put(key, release())
    assert planned.timing().released_at == {}


def test_policy_is_read_when_it_changes_and_reported_where_it_can_not_be_read(tmp_path: Path) -> None:
    file = tmp_path / "policy.json"
    planned, registry = schedule(Cache({}), file)
    missing = planned.timing()
    assert missing.policy is None
    assert "No such file" in missing.policy_error
    assert registry.get_sample_value(METRIC) == 0

    file.write_text(GOOD)
    good = planned.timing()
    assert good.policy is not None
    assert good.policy_error == ""
    assert registry.get_sample_value(METRIC) == 1

    file.write_text("{}")
    os.utime(file, ns=(1, 1))
    broken = planned.timing()
    assert broken.policy is None
    assert "maintenance policy" in broken.policy_error
    assert registry.get_sample_value(METRIC) == 0


def test_without_a_policy_nothing_waits_for_one() -> None:
    planned, registry = schedule(Cache({}), None)
    timing = planned.timing()
    assert (timing.policy, timing.policy_error) == (None, "")
    assert registry.get_sample_value(METRIC) == 1
