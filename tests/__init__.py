"""All tests. Folders with this file are packages to pytest: what a package shares ends when its tests are done."""
