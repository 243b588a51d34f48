"""The tables of a profile: shares of a flame graph, requests of an API server, and what a change was spent on."""

import pytest

from benchmarks.profiling.flame_graph import shares_by_package
from benchmarks.profiling.hops import WEBHOOK, Changes, Handled, read_handled

SVG = (
    '<g><title>all (100 samples, 100%)</title><rect x="0%" y="52" width="100%" height="15" fill="rgb(227,0,7)"'
    ' fg:x="0" fg:w="100"/></g>'
    '<g><title>run (uvloop/__init__.py:92) (100 samples, 100%)</title><rect x="0%" y="68" width="100%" height="15"'
    ' fill="rgb(1,0,7)" fg:x="0" fg:w="100"/></g>'
    '<g><title>send (aiohttp/client.py:10) (30 samples, 30%)</title><rect x="0%" y="84" width="30%" height="15"'
    ' fill="rgb(1,0,7)" fg:x="0" fg:w="30"/></g>'
    '<g><title>&lt;lambda&gt; (kube_runtime/a.py:10) (50 samples, 50%)</title><rect x="30%" y="84" width="50%"'
    ' height="15" fill="rgb(1,0,7)" fg:x="30" fg:w="50"/></g>'
)
METRICS = """
apiserver_request_duration_seconds_bucket{resource="kymas",verb="APPLY",le="1"} 3
apiserver_admission_webhook_admission_duration_seconds_sum{name="a.kyma",operation="UPDATE",type="validating"} 0.25
apiserver_admission_webhook_admission_duration_seconds_count{name="a.kyma",operation="UPDATE",type="validating"} 5
apiserver_request_duration_seconds_sum{component="apiserver",resource="kymas",subresource="",verb="APPLY"} 0.5
apiserver_request_duration_seconds_count{component="apiserver",resource="kymas",subresource="",verb="APPLY"} 3
apiserver_request_duration_seconds_sum{component="apiserver",resource="kymas",subresource="",verb="PATCH"} 0.1
apiserver_request_duration_seconds_count{component="apiserver",resource="kymas",subresource="",verb="PATCH"} 1
apiserver_request_duration_seconds_sum{component="apiserver",resource="kymas",subresource="",verb="WATCH"} 900
apiserver_request_duration_seconds_count{component="apiserver",resource="kymas",subresource="",verb="WATCH"} 1
"""


def test_share_of_a_package_is_that_of_its_innermost_frames() -> None:
    assert shares_by_package(SVG) == {"kube_runtime": 0.5, "aiohttp": 0.3, "uvloop": 0.2}


def test_threads_that_wait_for_work_are_not_counted() -> None:
    waiting = SVG.replace("aiohttp/client.py", "selectors.py")

    assert shares_by_package(waiting) == pytest.approx({"kube_runtime": 5 / 7, "uvloop": 2 / 7})


def test_no_samples_have_no_shares() -> None:
    assert shares_by_package("<svg/>") == {}


def test_requests_are_read_without_watches() -> None:
    found = read_handled(METRICS)

    assert found.keys() == {("PATCH", "kymas", ""), WEBHOOK}
    assert found["PATCH", "kymas", ""].count == 4
    assert found["PATCH", "kymas", ""].seconds == pytest.approx(0.6)
    assert found[WEBHOOK] == Handled(5, 0.25)


def test_time_of_a_change_is_divided() -> None:
    changes = Changes(
        totals=[50.0, 60.0, 70.0],
        cpu={"lifecycle-manager": [10.0], "skr-watcher": [5.0]},
        floor=30.0,
        network=13.0,
        requests={("skr", "GET", "infrastructures", ""): Handled(2, 0.02), ("kcp", *WEBHOOK): Handled(3, 0.006)},
    )

    assert changes.spent() == pytest.approx(
        {"API server": 8.0, "webhooks": 2.0, "network": 13.0, "our CPU": 15.0, "waiting": 22.0}
    )
