"""The fleet page: every cluster of a control plane, live and read-only, for operators."""

from kyma_fleet_page.access import Access
from kyma_fleet_page.app import PageSources, create_app
from kyma_fleet_page.cluster import Explanation, RecordedEvent

__all__ = ["Access", "Explanation", "PageSources", "RecordedEvent", "create_app"]
