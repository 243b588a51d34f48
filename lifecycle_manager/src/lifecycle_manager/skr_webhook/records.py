"""What is noted on a Kyma about its cluster's Watcher, for processes that come after this one."""

from lifecycle_manager_api import names

WATCHER_RECORD = f"{names.GROUP}/skr-watcher"
"""The digest of the objects that were last applied."""

TRUST_RECORD = f"{names.GROUP}/skr-trust"
"""The fingerprint of the authorities that were in force then."""
