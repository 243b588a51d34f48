"""Connections to SKRs, and the controller that probes those that do not answer.

The key is the name of a Kyma. An SKR that stays silent is probed after growing pauses, by workers of their own, so that
other keys do not wait for it. Once it answers, or its access Secret changes, ClusterReachable enqueues all that failed.
Where that leads to another API server, as to a cluster that was restored, ClusterReplaced has everything compared.
"""

from collections.abc import Iterable

import structlog

from kube_runtime import (
    Causes,
    Change,
    ClientOptions,
    Controller,
    KubeconfigPolicy,
    Manager,
    Priority,
    Result,
    RetryPolicy,
)
from kube_runtime.client.http_session import HttpSession
from kube_runtime.client.limits import AnswerMemory
from lifecycle_manager.contract.resources import SECRETS, Secret
from lifecycle_manager.contract.signals import ClusterReachable, ClusterReplaced, ClusterSilent
from lifecycle_manager.options.clusters import SkrSettings
from lifecycle_manager.options.types import burst_of
from lifecycle_manager.skr import token_renewal
from lifecycle_manager.skr.access import ACCESS_SECRETS, OUR_SECRETS, SkrAccessError, access_index, server_of
from lifecycle_manager.skr.connections import Connections

log = structlog.get_logger("skr")

PROBE_POLICY = RetryPolicy(base_seconds=0.5, max_seconds=60.0, rate=100.0, burst=1000)
FIRST_PROBE_SECONDS = 0.1

MIB = 1024 * 1024
# The users of an SKR can replace the server of an API group by their own, so its answers are limited (docs/trust.md).
MAX_RESPONSE_BYTES, MAX_LIST_BYTES = 64 * MIB, 128 * MIB
MAX_VALUES = 1_600_000
MAX_EVENT_BYTES = 2 * MIB
"""Of an object that is watched: more than etcd stores. Dozens are watched at once, and a value takes 24 such bytes."""
MAX_REQUESTS_IN_FLIGHT = 16
# Long enough for what follows a change; an open connection takes about 0.3 MB, and there are thousands of SKRs.
KEEP_ALIVE_SECONDS = 20.0
READ_BUFFER_BYTES = 64 * 1024


def connections_of(manager: Manager, settings: SkrSettings = SkrSettings()) -> Connections:
    """Return the connections to SKRs. Their writes are fenced by the sharding of the manager."""
    options = ClientOptions(
        qps=settings.qps,
        burst=burst_of(settings.qps),
        timeout_seconds=settings.request_timeout_seconds,
        max_in_flight=MAX_REQUESTS_IN_FLIGHT,
        keep_alive_seconds=KEEP_ALIVE_SECONDS,
        max_response_bytes=MAX_RESPONSE_BYTES,
        max_values=MAX_VALUES,
        max_list_bytes=MAX_LIST_BYTES,
        max_event_bytes=MAX_EVENT_BYTES,
        read_buffer_bytes=READ_BUFFER_BYTES,
        answer_memory=AnswerMemory(),
        session=HttpSession(),
        circuit=True,
    )
    policy = KubeconfigPolicy.permissive() if settings.allow_insecure_kubeconfigs else KubeconfigPolicy.strict()
    return Connections(
        manager.informer(SECRETS, label_selector=OUR_SECRETS, indexes=[ACCESS_SECRETS]),
        options,
        policy,
        max_clients=settings.max_clients,
        fence=manager.sharding.check,
        on_silence=lambda kyma: manager.publish(ClusterSilent(kyma)),
    )


def setup(manager: Manager, connections: Connections, settings: SkrSettings = SkrSettings()) -> Controller[str, None]:
    """Probe SKRs that do not answer, publish ClusterReachable for those that do again, and renew tokens for SKRs."""
    token_renewal.setup(manager, connections)
    controller: Controller[str, None] = manager.controller(
        "skr-probe",
        owner=str,
        exists=lambda _: True,
        concurrency=settings.max_concurrent_probes,
        retry=PROBE_POLICY,
        retry_priority=Priority.RESYNC,
        is_limited=False,
    )

    def unless_probed(signal: ClusterSilent) -> Iterable[str]:
        return () if controller.queue.failures(signal.kyma) else (signal.kyma,)

    async def probe(kyma: str, _causes: Causes, _state: None) -> Result:
        try:
            await connections.probe(kyma)
        except SkrAccessError:
            return Result()  # without credentials; new ones enqueue all that needs them
        log.info("cluster answers again", kyma=kyma)
        manager.publish(ClusterReachable(kyma))
        return Result()

    controller.receives(ClusterSilent, to=unless_probed, after=FIRST_PROBE_SECONDS)
    controller.reconciles(probe)

    def publish_access(change: Change[Secret]) -> None:
        old, new = change.old, change.new
        for kyma in filter(manager.sharding.owns, kymas_of_access(change)):
            if old is not None and new is not None and server_of(old) != server_of(new):
                manager.publish(ClusterReplaced(kyma))
            manager.publish(ClusterReachable(kyma))

    async def follow_secrets() -> None:  # from the start on: what exists then is reconciled anyway
        connections.secrets.on_change(publish_access, replay=False)

    def note_access(change: Change[Secret]) -> None:
        for kyma in kymas_of_access(change):
            connections.found(kyma)

    connections.secrets.on_change(note_access)
    manager.before_start(follow_secrets)
    return controller


def kymas_of_access(change: Change[Secret]) -> frozenset[str]:
    """Return the names of the Kymas whose access Secret was created or deleted, or whose data or Kyma changed.

    Other changes, such as those of its annotations, lead to the same cluster.
    """
    old, new = change.old, change.new
    before, after = (frozenset(access_index(each)) if each is not None else frozenset[str]() for each in (old, new))
    is_same = old is not None and new is not None and (old.metadata.uid, old.data) == (new.metadata.uid, new.data)
    return before ^ after if is_same else before | after
