"""What the demo says first, before it imports what takes a second: what it will do, and how long that takes."""

from kyma_local.cache import present_binaries

CHANGE = "a user's change comes into force in another cluster,\nand 50 more are measured; every step is verified"
FETCHED = (
    "First, once: kube-apiserver and etcd are downloaded (some 200 MB), or built\n"
    "where the releases are out of reach (up to 6 minutes on two cores)."
)


def announcement(*, rollout: bool, nodes: bool, existing: bool, clusters: int) -> str:
    """Return it for the kind of demo, with what has to be fetched on this machine."""
    if rollout:
        return f"The demo: versions go through {clusters} simulated clusters in waves, and back.\nAbout 40 s."
    if existing:
        return f"The demo: {CHANGE}.\nIt uses the clusters of your kubeconfigs; about 20 s."
    where = "in Pods on two nodes that start here; about a minute" if nodes else "on real API servers here; about 20 s"
    text = f"The demo: {CHANGE}.\nIt runs {where}."
    if nodes:
        text += "\nFirst, once: what is not in the cache is built, with the programs of nodes and\nHelm: some minutes."
    elif present_binaries() is None:
        text += f"\n{FETCHED}"
    return text


def playground_announcement() -> str:
    """Return what the playground says first."""
    text = "The playground: a control plane and two user clusters, on real API servers here;\nready after about 15 s."
    return text if present_binaries() is not None else f"{text}\n{FETCHED}"
