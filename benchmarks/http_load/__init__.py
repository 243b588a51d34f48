"""The load of the Watcher's benchmarks: a cheap HTTP client, realistic AdmissionReviews, and the servers under test."""
