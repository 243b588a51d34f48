"""The manager: a Redis and, as soon as that is ready, the application that uses it."""

from collections.abc import Iterator
from typing import Any

import msgspec

from kyma_module_manager.context import ModuleContext
from kyma_module_manager.declaration import Rendered, module_manager
from lifecycle_manager_api import ObjectMeta, State, SyncedObject


class GuestbookSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The configuration that the user writes."""

    replicas: int = 2
    version: str = "v5"
    storage: str = "1Gi"


class Guestbook(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The Module CR."""

    metadata: ObjectMeta
    spec: GuestbookSpec = GuestbookSpec()


@module_manager("guestbook", crd=Guestbook)
def objects(guestbook: Guestbook, context: ModuleContext) -> Rendered:
    """Return the database, the application too as soon as the database is ready, and the state of both."""
    namespace, name = guestbook.metadata.namespace, guestbook.metadata.name
    synced = context.synced()
    database = synced.find("StatefulSet", f"{name}-database", namespace, group="apps")
    application = synced.find("Deployment", name, namespace, group="apps")
    # Once started, the application stays while the database is being changed.
    started = context.written("Deployment", name, namespace, group="apps") is not None
    starts = started or (database is not None and database.state is State.READY)
    return Rendered(
        _objects(guestbook, with_application=starts),
        status={"database": _shown(database), "application": _shown(application)},
    )


def _objects(guestbook: Guestbook, *, with_application: bool) -> Iterator[dict[str, Any]]:
    yield _service(guestbook)
    yield _database(guestbook)
    if with_application:
        yield _application(guestbook)


def _shown(reported: SyncedObject | None) -> str:
    """Return the state of an object for the status of the Module CR, with the reason for it."""
    if reported is None:
        return "Pending"
    return f"{reported.state}: {reported.message}" if reported.message else reported.state or "Pending"


def _service(guestbook: Guestbook) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(guestbook, "-database"),
        "spec": {
            "clusterIP": "None",
            "selector": _labels(guestbook, "database"),
            "ports": [{"name": "redis", "port": 6379}],
        },
    }


def _database(guestbook: Guestbook) -> dict[str, Any]:
    labels = _labels(guestbook, "database")
    container = {
        "name": "redis",
        "image": "redis:8",
        "ports": [{"name": "redis", "containerPort": 6379}],
        "readinessProbe": {"tcpSocket": {"port": "redis"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": guestbook.spec.storage}},
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": _metadata(guestbook, "-database"),
        "spec": {
            "serviceName": f"{guestbook.metadata.name}-database",
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            "volumeClaimTemplates": [claim],
        },
    }


def _application(guestbook: Guestbook) -> dict[str, Any]:
    labels = _labels(guestbook, "application")
    container = {
        "name": "guestbook",
        "image": f"gb-frontend:{guestbook.spec.version}",
        "env": [{"name": "REDIS_HOST", "value": f"{guestbook.metadata.name}-database"}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(guestbook, ""),
        "spec": {
            "replicas": guestbook.spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def _metadata(guestbook: Guestbook, suffix: str) -> dict[str, Any]:
    return {"name": f"{guestbook.metadata.name}{suffix}", "namespace": guestbook.metadata.namespace}


def _labels(guestbook: Guestbook, component: str) -> dict[str, str]:
    return {"app.kubernetes.io/instance": guestbook.metadata.name, "app.kubernetes.io/component": component}
