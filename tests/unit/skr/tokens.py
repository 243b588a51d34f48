"""Tokens as a cluster issues them, without a signature that anybody could verify."""

import base64
import json
from datetime import datetime, timedelta

from kube_runtime import dump_yaml


def token(issued: datetime, *, lasts: timedelta = timedelta(hours=1), subject: str = "kube-system:klm") -> str:
    expires = issued + lasts
    claims = {
        "sub": f"system:serviceaccount:{subject}",
        "iat": int(issued.timestamp()),
        "exp": int(expires.timestamp()),
    }
    head, payload = (base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in ({}, claims))
    return f"{head}.{payload}.c2ln"


def kubeconfig(text: object, server: str = "https://skr.example.com") -> str:
    return dump_yaml(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "skr",
            "contexts": [{"name": "skr", "context": {"cluster": "skr", "user": "klm"}}],
            "clusters": [{"name": "skr", "cluster": {"server": server}}],
            "users": [{"name": "klm", "user": {"token": text}}, {"name": "other", "user": {"token": "other"}}],
        }
    )
