"""The templates of the pages, and what they may use."""

from dataclasses import asdict, replace
from functools import partial
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from kube_runtime.ages import age
from kyma_fleet.screen import SIGNS
from kyma_fleet_page.fleet import Filter
from kyma_fleet_page.rollouts import moment
from lifecycle_manager.contract.fleet import GOOD, MAX_CAUSE
from lifecycle_manager_api import State
from lifecycle_manager_api.conditions import shortened

MAX_RECENT = 30
MARKS = {"ok": "in order", "wait": "waits", "bad": "not in order", "note": "note"}
"""What a screen reader says for each mark of an explanation."""
LINE_CLASSES = {"+": "added", "-": "removed", "@": "place"}


def environment() -> Environment:
    """Return the templates. `number` separates thousands, `short` cuts messages of clusters."""
    templates = Environment(
        loader=PackageLoader("kyma_fleet_page"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    templates.globals |= {
        "good": GOOD,
        "signs": {mark: (sign, MARKS[mark]) for mark, (sign, _) in SIGNS.items()},
        "css": css_class,
        "link": link,
        "everything": Filter(),
        "max_recent": MAX_RECENT,
        "line_classes": LINE_CLASSES,
        "user": "",
    }
    templates.filters |= {
        "age": age,
        "moment": moment,
        "number": "{:,}".format,
        "short": partial(shortened, max_length=MAX_CAUSE),
    }
    return templates


def css_class(state: State) -> str:
    """Return the CSS class of a state."""
    return state.value.lower() or "new"


def link(wanted: Filter, **changes: str) -> str:
    """Return the address of the fleet with another filter."""
    query = {key: value for key, value in asdict(replace(wanted, **changes)).items() if value}  # type: ignore[arg-type]
    return f"/?{urlencode(query)}" if query else "/"
