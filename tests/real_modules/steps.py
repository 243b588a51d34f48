"""What happens in a walk: edits of the manifest, of users, and of other controllers.

All of it is drawn from the manifest and never from a cluster, so that a seed says it all.
"""

import copy
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.real_modules.definitions import CA, definition, thing
from tests.real_modules.objects import BY_KIND, KINDS

Document = dict[str, Any]
Key = tuple[str, str, str]
"""Kind, namespace and name of an object: no two kinds of a walk have one name."""
NAMES = ("one", "two", "three")
CRD = "CustomResourceDefinition"
STAYING = frozenset({CRD, "Namespace"})
"""Kinds of which objects stay in the manifest: with them would go what they contain, which the product never does."""
_FIXED = {
    "roleRef": frozenset({"RoleBinding", "ClusterRoleBinding"}),
    "provisioner": frozenset({"StorageClass"}),
    "type": frozenset({"Secret"}),
}


@dataclass(frozen=True)
class Edit:
    """A write of somebody else: a merge patch, or without one a deletion."""

    api_version: str
    key: Key
    patch: Document | None
    manager: str = "user"
    subresource: str = ""

    def __str__(self) -> str:
        return f"{self.manager} {'deletes' if self.patch is None else f'patches {self.patch} into'} {self.key}"


@dataclass
class Manifest:
    """The documents of a walk, in their order."""

    prefix: str
    documents: dict[Key, Document] = field(default_factory=dict)

    @classmethod
    def first(cls, draw: random.Random, prefix: str, size: int) -> "Manifest":
        manifest = cls(prefix)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{prefix}-a"}}
        crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": CRD, **definition(draw, prefix)}
        for each in (namespace, crd):
            manifest.put(each)
        while len(manifest.documents) < size:
            add(draw, manifest)
        return manifest

    @property
    def namespaces(self) -> tuple[str, str]:
        return f"{self.prefix}-a", f"{self.prefix}-b"

    def put(self, document: Document) -> None:
        self.documents[key_of(document)] = document

    def copied(self) -> "Manifest":
        return Manifest(self.prefix, copy.deepcopy(self.documents))

    def changeable(self) -> list[Key]:
        return [key for key in self.documents if key[0] not in STAYING]


def key_of(document: Mapping[str, Any]) -> Key:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace") or "", metadata["name"]


def drawn(draw: random.Random, manifest: Manifest, kind: str, name: str, namespace: str) -> Document:
    """Return an object of a kind anew."""
    if kind in BY_KIND:
        return draw.choice(BY_KIND[kind]).document(draw, name, namespace)
    if kind == CRD:
        return {"apiVersion": "apiextensions.k8s.io/v1", "kind": CRD, **definition(draw, manifest.prefix)}
    if kind == "Namespace":
        labels = {"a": str(draw.randint(1, 3)), "b": "c"}
        return {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {"name": name, **({"labels": labels} if draw.random() < 0.7 else {})},
        }
    return {**thing(draw, manifest.prefix), "metadata": {"name": name, "namespace": namespace}}


def add(draw: random.Random, manifest: Manifest) -> str:
    kind = draw.choice([*(each.kind for each in KINDS), "thing", "thing", "thing"])
    is_namespaced = kind == "thing" or BY_KIND[kind][0].namespaced
    name = draw.choice(NAMES) if is_namespaced else f"{manifest.prefix}-{draw.choice(NAMES)}"
    document = drawn(draw, manifest, kind, name, draw.choice(manifest.namespaces))
    if key_of(document) in manifest.documents:
        return change(draw, manifest)
    manifest.put(document)
    return f"{key_of(document)} is added"


def change(draw: random.Random, manifest: Manifest) -> str:
    """Give some objects some sections of new versions."""
    chosen = draw.sample([*manifest.documents], min(len(manifest.documents), draw.randint(1, 4)))
    for key in chosen:
        old, new = manifest.documents[key], drawn(draw, manifest, *(key[0], key[2], key[1]))
        manifest.documents[key] = _mixed(draw, old, new)
    return f"{chosen} change"


def remove(draw: random.Random, manifest: Manifest) -> str:
    if not (keys := manifest.changeable()):
        return add(draw, manifest)
    key = draw.choice(keys)
    del manifest.documents[key]
    return f"{key} is removed"


def move(draw: random.Random, manifest: Manifest) -> str:
    """Rename an object, or move it to the other namespace."""
    if not (keys := manifest.changeable()):
        return add(draw, manifest)
    key = draw.choice(keys)
    document = dict(manifest.documents.pop(key))
    metadata = dict(document["metadata"])
    if "namespace" in metadata and draw.random() < 0.5:
        metadata["namespace"] = next(each for each in manifest.namespaces if each != metadata["namespace"])
    else:
        metadata["name"] = draw.choice(NAMES) if "namespace" in metadata else f"{manifest.prefix}-{draw.choice(NAMES)}"
    document["metadata"] = metadata
    manifest.put(document)
    return f"{key} becomes {key_of(document)}"


def reorder(draw: random.Random, manifest: Manifest) -> str:
    """Write the documents in another order, those first that others need."""
    items = [*manifest.documents.items()]
    draw.shuffle(items)
    items.sort(key=lambda item: item[0][0] not in STAYING)
    manifest.documents = dict(items)
    return "the documents are reordered"


def stay(_draw: random.Random, _manifest: Manifest) -> str:
    return "the manifest stays"


MANIFEST_STEPS: tuple[Callable[[random.Random, Manifest], str], ...] = (
    *(change,) * 5, *(add,) * 2, remove, move, reorder, *(stay,) * 6,
)  # fmt: skip


def edits_of(draw: random.Random, manifest: Manifest) -> list[Edit]:
    """Return what others do to objects of the manifest."""
    documents = [*manifest.documents.values()]
    return [_edit(draw, manifest, draw.choice(documents)) for _ in range(draw.choice([0, 1, 2, 3, 4, 6]))]


def _edit(draw: random.Random, manifest: Manifest, document: Document) -> Edit:
    key, version = key_of(document), document["apiVersion"]
    if key[0] in {"Deployment", "StatefulSet"} and draw.random() < 0.3:
        patch = {"spec": {"replicas": draw.randint(0, 3)}}
        return Edit(version, key, patch, draw.choice(["user", "kube-controller-manager"]), "scale")
    if key[0] == "ClusterRole" and "aggregationRule" in document:
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
        return Edit(version, key, {"rules": rules}, "clusterrole-aggregation-controller")
    if draw.random() < 0.1 and key[0] not in STAYING:
        return Edit(version, key, None)
    manager = draw.choice(["user", "kubectl-edit", "other-controller"])
    if draw.random() < 0.4 or key[0] in STAYING:
        return Edit(version, key, {"metadata": _metadata(draw)}, manager)
    new = drawn(draw, manifest, key[0], key[2], key[1])
    return Edit(new["apiVersion"], key, _section_patch(draw, document, new), manager)


def _metadata(draw: random.Random) -> Document:
    labels = {draw.choice(["app.kubernetes.io/name", "part", "version", "of-a-user"]): draw.choice(["z", None])}
    annotations = {draw.choice(["description", "flag", "deployment.kubernetes.io/revision"]): draw.choice(["1", None])}
    return draw.choice([{"labels": labels}, {"annotations": annotations}, {"labels": None}, {"annotations": None}])


def _section_patch(draw: random.Random, old: Document, new: Document) -> Document:
    """Return a patch that gives a section its content in another version, or takes it away."""
    where, before, after = _sections(old), _body(old), _body(new)
    names = sorted(key for key in {*before, *after} if not _is_fixed(old["kind"], key))
    if not names:
        return {"metadata": {"labels": {"of-a-user": "x"}}}
    name = draw.choice(names)
    value = after.get(name) if draw.random() < 0.75 else draw.choice([None, type(before.get(name, ""))()])
    if name == "template" and not value:
        value = before[name]
    return {where: {name: value}} if where else {name: value}


def _mixed(draw: random.Random, old: Document, new: Document) -> Document:
    """Return a document with some sections of a new version."""
    before, after, where = _body(old), _body(new), _sections(old)
    body: Document = {}
    for name in dict.fromkeys((*before, *after)):
        chosen = before if _is_fixed(old["kind"], name) or draw.random() < 0.5 else after
        if name in chosen:
            body[name] = chosen[name]
    changed = {**{key: value for key, value in new.items() if key not in after}, **({where: body} if where else body)}
    return _valid(draw, old, new, changed)


def _valid(draw: random.Random, old: Document, new: Document, mixed: Document) -> Document:
    """Return the mixture where any mixture is valid, else one of both."""
    if old["kind"] in {"PodDisruptionBudget", CRD, "ClusterRole"} or old["apiVersion"] != new["apiVersion"]:
        return draw.choice([old, new])
    return mixed


def _sections(document: Document) -> str:
    return "spec" if isinstance(document.get("spec"), dict) else ""


def _body(document: Document) -> Document:
    if _sections(document):
        return dict(document["spec"])
    return {key: value for key, value in document.items() if key not in {"apiVersion", "kind", "metadata"}}


def _is_fixed(kind: str, name: str) -> bool:
    return kind in _FIXED.get(name, ()) or (name in {"selector", "serviceName", "scaleTargetRef"} and kind != "Service")


def injections(manifest: Manifest) -> list[Edit]:
    """Return what cert-manager's cainjector writes into the webhooks of a manifest that have no CA."""
    found = []
    for key, document in manifest.documents.items():
        hooks = document.get("webhooks") or ()
        if hooks and not any(each["clientConfig"].get("caBundle") for each in hooks):
            filled = [{**each, "clientConfig": {**each["clientConfig"], "caBundle": CA}} for each in hooks]
            found.append(Edit(document["apiVersion"], key, {"webhooks": filled}, "cert-manager-cainjector"))
    return found
