"""The fleet page: every cluster of a control plane, live and read-only, for operators."""

from kyma_fleet_page.access import Access
from kyma_fleet_page.app import RecordedEvent, Sources, create_app
from kyma_fleet_page.cluster import Parts

__all__ = ["Access", "Parts", "RecordedEvent", "Sources", "create_app"]
