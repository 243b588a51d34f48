"""The limits of everything that is exchanged with a registry."""

MAX_BYTES = 16 * 1024 * 1024
"""Of a layer or a manifest: pulled or pushed, packed or unpacked."""
MAX_TOKEN_BYTES = 64 * 1024
MAX_DETAIL_BYTES = 1024
"""Of the answer in which a registry says why it refuses a push; the rest is not read."""
MAX_REDIRECTS = 3
MAX_PAGES = 50
"""Of a list of what refers to an artifact."""
TIMEOUT_SECONDS = 60.0
"""For a layer or a manifest, with all requests that it takes."""
CONNECT_SECONDS = 10.0
READ_SECONDS = 20.0
"""Without a byte."""
BUSY_SECONDS = 30.0
MIN_BUSY_SECONDS, MAX_BUSY_SECONDS = 1.0, 600.0
CHUNK = 64 * 1024

MAX_FILES = 1_000
MAX_RATIO = 200
RATIO_COUNTS_FROM = 1024 * 1024
MAX_MEMBERS = 4_096
"""Members of one gzip; those of archives that can be read in parts have one or two for each file."""
