"""Draws the parts of Pods: containers, volumes and what is beside them."""

import random
from typing import Any

Document = dict[str, Any]
QUANTITIES = ("100m", "0.5", "1", "1000m", "64Mi", "1Gi", "1024Mi", "1e3", 2)


def some(draw: random.Random, values: list[Any], at_least: int = 0) -> list[Any]:
    """Return some of the values in any order."""
    return draw.sample(values, draw.randint(at_least, len(values)))


def maybe(draw: random.Random, **values: Any) -> Document:
    """Return each of the fields or not."""
    return {key: value for key, value in values.items() if draw.random() < 0.5}


def pod_spec(draw: random.Random, *, restarts: bool = True) -> Document:
    volumes = [_volume(draw, name) for name in some(draw, ["cache", "settings", "keys"])]
    mounted = [each["name"] for each in volumes]
    containers = [_container(draw, name, mounted) for name in some(draw, ["manager", "proxy", "metrics"], 1)]
    return {
        "containers": containers,
        **({} if restarts else {"restartPolicy": "Never"}),
        **({"volumes": volumes} if volumes else {}),
        **maybe(
            draw,
            serviceAccountName=draw.choice(["default", "manager"]),
            terminationGracePeriodSeconds=draw.choice([0, 10, 30]),
            nodeSelector={"kubernetes.io/os": "linux", **maybe(draw, disk="ssd", zone="a")},
            tolerations=some(
                draw,
                [
                    {"operator": "Exists", "effect": "NoSchedule"},
                    {"key": "a", "operator": "Equal", "value": "b"},
                    {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
                ],
            ),
            imagePullSecrets=[{"name": each} for each in some(draw, ["one", "two"])],
            securityContext=maybe(draw, runAsNonRoot=True, fsGroup=0o644, seccompProfile={"type": "RuntimeDefault"}),
            hostAliases=[{"ip": "127.0.0.1", "hostnames": some(draw, ["a.example", "b.example"], 1)}],
            initContainers=[_container(draw, "first", mounted)],
            topologySpreadConstraints=[
                {"maxSkew": draw.choice([1, 2]), "topologyKey": each, "whenUnsatisfiable": "ScheduleAnyway"}
                for each in some(draw, ["zone", "host"])
            ],
            affinity={"podAntiAffinity": _anti_affinity(draw)},
            priorityClassName="",
            dnsPolicy="ClusterFirst",
        ),
    }


def pod_template(draw: random.Random, name: str, *, restarts: bool = True) -> Document:
    annotations = maybe(draw, checksum=str(draw.randint(0, 9)), flag="true", empty="")
    metadata = {"labels": {"app": name, **maybe(draw, tier="back", version=str(draw.randint(1, 3)))}}
    return {
        "metadata": metadata
        | ({"annotations": annotations} if annotations else {})
        | maybe(draw, creationTimestamp=None),
        "spec": pod_spec(draw, restarts=restarts),
    }


def _anti_affinity(draw: random.Random) -> Document:
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    preferred = [{"weight": draw.choice([1, 100]), "podAffinityTerm": term}]
    return {"preferredDuringSchedulingIgnoredDuringExecution": preferred} | maybe(
        draw, requiredDuringSchedulingIgnoredDuringExecution=[term]
    )


def _container(draw: random.Random, name: str, volumes: list[str]) -> Document:
    port = {"manager": 8080, "proxy": 15001, "metrics": 9090, "first": 1}[name]
    ports = [
        {"containerPort": port, "name": "http", "protocol": "TCP"},
        {"containerPort": port, "name": "dns", "protocol": "UDP"},
        {"containerPort": port + 1},
    ]
    limits = {"cpu": draw.choice(["1", "1000m", 2]), "memory": draw.choice(["64Mi", "1Gi", "1024Mi", "1e9"])}
    return {
        "name": name,
        "image": f"registry.example.com/{name}:{draw.randint(1, 3)}",
        **maybe(
            draw,
            args=some(draw, ["--a", "--b=1", "--b=2", ""]),
            command=["/bin/sh", "-c"],
            env=_environment(draw),
            envFrom=[{"configMapRef": {"name": each}} for each in some(draw, ["a", "b"])],
            ports=some(draw, ports),
            volumeMounts=[{"name": each, "mountPath": f"/{each}"} for each in volumes],
            resources=maybe(draw, limits=limits, requests={"cpu": draw.choice(["10m", "0.01", 1])}),
            securityContext={
                "allowPrivilegeEscalation": False,
                "capabilities": maybe(draw, add=some(draw, ["NET_ADMIN", "CHOWN"]), drop=["ALL"]),
            },
            imagePullPolicy=draw.choice(["Always", "IfNotPresent"]),
            livenessProbe={"periodSeconds": draw.choice([5, 10]), **_probe(draw)} if name != "first" else None,
            lifecycle={"preStop": {"exec": {"command": ["sleep", "1"]}}} if name != "first" else None,
        ),
    }


def _environment(draw: random.Random) -> list[Document]:
    variables = [
        {"name": "LEVEL", "value": draw.choice(["info", "debug", "", "1", "true"])},
        {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        draw.choice(
            [
                {"name": "TOKEN", "value": "plain"},
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "a", "optional": True}}},
            ]
        ),
        {"name": "EMPTY"},
    ]
    return some(draw, variables)


def _probe(draw: random.Random) -> Document:
    probes: list[Document] = [
        {"httpGet": {"path": "/healthz", "port": draw.choice([8080, "http"])}},
        {"exec": {"command": ["true"]}},
        {"tcpSocket": {"port": 8080}},
    ]
    return draw.choice(probes)


def _volume(draw: random.Random, name: str) -> Document:
    sources: list[Document] = [
        {"emptyDir": {}},
        {"emptyDir": {"sizeLimit": draw.choice(["1Gi", "1024Mi"])}},
        {"configMap": {"name": name, **maybe(draw, defaultMode=0o644, optional=True)}},
        {"secret": {"secretName": name, **maybe(draw, defaultMode=420, items=[{"key": "a", "path": "a"}])}},
        {"projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}]}},
    ]
    return {"name": name, **draw.choice(sources)}
