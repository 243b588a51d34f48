"""The refusals of the event endpoint, as application/problem+json (RFC 9457)."""

import msgspec
from starlette.responses import Response


class Refused(Exception):
    """An event that is not taken: the status, a title, and what is wrong with it."""

    def __init__(self, status: int, title: str, detail: str, *, retry_after: int | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.detail = detail
        self.retry_after = retry_after

    def response(self) -> Response:
        """Return the answer to the sender."""
        problem = {"type": "about:blank", "title": self.title, "status": self.status, "detail": self.detail}
        headers = {"Retry-After": str(self.retry_after)} if self.retry_after is not None else None
        return Response(
            msgspec.json.encode(problem), self.status, headers=headers, media_type="application/problem+json"
        )
