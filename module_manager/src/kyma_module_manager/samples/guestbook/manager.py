"""The manager: a Redis and, as soon as that is ready, the application that uses it."""

from collections.abc import Iterator
from typing import Any

import msgspec

from kyma_module_manager.context import ModuleContext
from kyma_module_manager.declaration import module_manager
from lifecycle_manager_api import ObjectMeta, State

__all__ = ["Guestbook", "objects"]


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
def objects(guestbook: Guestbook, context: ModuleContext) -> Iterator[dict[str, Any]]:
    """Return the database, and the application too as soon as the database is ready."""
    yield _service(guestbook)
    yield _database(guestbook)
    if _may_start(guestbook, context):
        yield _application(guestbook)


def _may_start(guestbook: Guestbook, context: ModuleContext) -> bool:
    """Tell whether to return the application: once started, it stays while the database is being changed."""
    namespace, name = guestbook.metadata.namespace, guestbook.metadata.name
    database = context.synced("StatefulSet", f"{name}-database", namespace, group="apps")
    started = context.written("Deployment", name, namespace, group="apps") is not None
    return started or (database is not None and database.state == State.READY)


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
