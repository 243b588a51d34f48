"""Builds the documentation's site: `make docs`.

The pages are the Markdown files of the repository, which read well where they are. `site` lays them out for Zensical,
with the pages of `reference`, which are generated from the code and stored nowhere. Read `site` first.
"""
