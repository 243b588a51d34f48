"""All tests. Folders with this file are packages to pytest, which stops what a package shares as soon as its tests are done."""
