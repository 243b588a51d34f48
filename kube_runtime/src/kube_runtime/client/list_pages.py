"""How much of a list was read, so that the next page can be requested now or later."""

from dataclasses import dataclass, field

__all__ = ["ListPages"]

PAGE_SIZES = (1, 4, 100)  # an object has at most 1.5 MiB in etcd


@dataclass(eq=False, slots=True)
class ListPages:
    """What was read of a list: so many bytes, up to a `token`, which is empty after the last page.

    Where a page is too large, smaller ones follow up to where it would have ended.
    """

    token: str | None = None
    size: int = 0
    _objects: int = 0
    _sizes: list[int] = field(default_factory=lambda: list(PAGE_SIZES))
    _ends: list[int] = field(default_factory=list)

    @property
    def next_size(self) -> int:
        """How many objects the next page has at most."""
        return self._sizes[-1]

    @property
    def is_complete(self) -> bool:
        return self.token == ""

    def shrink(self) -> None:
        """Note that the next page is too large, and has to be smaller."""
        self._ends.append(self._objects + self._sizes.pop())

    def add(self, objects: int, token: str, size: int) -> None:
        """Note a page with so many objects; all pages have `size` bytes now."""
        self.token, self.size = token, size
        self._objects += objects
        while self._ends and self._objects >= self._ends[-1]:
            self._sizes.append(PAGE_SIZES[len(self._sizes)])
            self._ends.pop()
