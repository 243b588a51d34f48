"""What was asked of a simulation: the last requests, and how many there were."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kube_simulation.requests import WRITES, ApiRequest


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request and the code of its answer; 0 where there was none."""

    number: int
    cluster: str
    method: str
    verb: str
    path: str
    resource: str
    namespace: str
    name: str
    subresource: str
    manager: str
    code: int

    @property
    def is_write(self) -> bool:
        """Tell whether it was to change something."""
        return self.verb in WRITES


class Records:
    """The last requests to all clusters of a simulation, and a counter that knows of all."""

    def __init__(self, most: int) -> None:
        self.count = 0
        self._kept: deque[RequestRecord] = deque(maxlen=most)

    def __iter__(self) -> Iterator[RequestRecord]:
        return iter(tuple(self._kept))

    def add(self, request: ApiRequest, code: int) -> None:
        """Record a request and its answer."""
        self.count += 1
        if not self._kept.maxlen:
            return
        resource = request.kind.plural_name if request.kind is not None else ""
        self._kept.append(
            RequestRecord(
                self.count,
                request.cluster,
                request.method,
                request.verb,
                request.path,
                resource,
                request.namespace,
                request.name,
                request.subresource,
                request.manager,
                code,
            )
        )

    def those(
        self, matches: Callable[[RequestRecord], bool] = lambda _: True, *, cluster: str | None = None, since: int = 0
    ) -> list[RequestRecord]:
        """Return the requests that match, oldest first; `since` is a count from before."""
        return [
            record
            for record in self._kept
            if record.number > since and (cluster is None or record.cluster == cluster) and matches(record)
        ]
