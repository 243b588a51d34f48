"""The navigation of the site and Zensical's configuration."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from tools.documentation.reference.python_api import PACKAGES
from tools.release.version import PROJECTS

FOLDERS = {"decisions": "Decisions", "runbooks": "Runbooks"}
"""Folders of docs with a page that lists their pages."""

ROOT_PAGES_AT = {
    PurePosixPath("README.md"): PurePosixPath("index.md"),
    PurePosixPath("CHANGELOG.md"): PurePosixPath("changelog.md"),
    PurePosixPath("CONTRIBUTING.md"): PurePosixPath("contributing.md"),
    PurePosixPath("SECURITY.md"): PurePosixPath("security.md"),
    PurePosixPath("libraries/api/go/README.md"): PurePosixPath("packages/api-go.md"),
}
ROOT_PAGES = tuple(map(str, ROOT_PAGES_AT))
"""Files outside of docs, and where the site has them."""

PACKAGE_READMES = tuple(file for each in PROJECTS if (file := each.with_name("README.md")).exists())
"""The pages of the packages."""


def _in(folder: str) -> list[str]:
    return [f"{folder}/{file.name}" for file in sorted(Path("docs", folder).glob("*.md"))]


NAVIGATION: Sequence[Mapping[str, object]] = (
    {
        "Start": [
            "index.md",
            "start/operator.md",
            "start/user.md",
            "start/module-team.md",
            "start/python-developer.md",
        ]
    },
    {"Concepts": ["concepts.md", "glossary.md", "compared.md"]},
    {
        "How-to": [
            {
                "Operate": [
                    "install.md",
                    "air-gapped.md",
                    "compatibility.md",
                    "verifying.md",
                    "migration.md",
                    "klm.md",
                    "fleet-page.md",
                    "tracing.md",
                    "local.md",
                ]
            },
            {"Develop": ["module-managers.md", "kube-runtime.md", "extending.md", "contributing.md"]},
        ]
    },
    {
        "Reference": [
            "reference/resources.md",
            "reference/reasons.md",
            "reference/options.md",
            "reference/commands.md",
            "reference/chart-values.md",
            "reference/metrics.md",
            "reference/deletions.md",
            "reference/attacks.md",
            {"Python": [f"reference/python/{name}.md" for name in PACKAGES]},
            {"Packages": [*(f"packages/{file.parent.name}.md" for file in PACKAGE_READMES), "packages/api-go.md"]},
        ]
    },
    {"Troubleshooting": ["troubleshooting.md"]},
    {"Runbooks": ["runbooks/index.md", *_in("runbooks")]},
    {
        "Architecture": [
            "architecture.md",
            "kymas.md",
            "modules.md",
            "rollouts.md",
            "module-cr-status.md",
            "watcher.md",
            "silence.md",
            "replicas.md",
            "scaling.md",
            "sizing.md",
            "performance.md",
            "fairness.md",
            "trust.md",
            "security.md",
        ]
    },
    {"Decisions": ["decisions/index.md", *_in("decisions")]},
    {"Changelog": ["changelog.md"]},
)


def listed(entries: object = NAVIGATION) -> Iterator[str]:
    """Yield the pages that entries of the navigation lead to."""
    match entries:
        case str():
            yield entries
        case Mapping():
            for each in entries.values():
                yield from listed(each)
        case Sequence():
            for each in entries:
                yield from listed(each)


NAME = "Lifecycle Manager for Kyma"
DESCRIPTION = "Keeps the Kyma modules of thousands of user clusters in the state their users asked for."
THEME = Path(__file__).with_name("theme")

CONFIGURATION = """\
[project]
site_name = "{name}"
site_description = "{description}"
{address}
docs_dir = "sources"
site_dir = "html"
nav = {navigation}

[project.validation]
invalid_links = true
invalid_link_anchors = true

{versions}

[project.theme]
language = "en"
custom_dir = "{theme}"
font = false
features = [
  "content.code.copy",
  "navigation.footer",
  "navigation.indexes",
  "navigation.path",
  "navigation.sections",
  "navigation.tabs",
  "navigation.top",
  "search.highlight",
  "toc.follow",
]

[[project.theme.palette]]
media = "(prefers-color-scheme)"
toggle.icon = "lucide/sun-moon"
toggle.name = "Switch to light mode"

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/sun"
toggle.name = "Switch to dark mode"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/moon"
toggle.name = "Switch to the system's mode"

[project.markdown_extensions]
tables = {{}}
attr_list = {{}}
md_in_html = {{}}
admonition = {{}}
toc.permalink = true
toc.slugify = {{ object = "pymdownx.slugs.slugify", kwds = {{ case = "lower" }} }}
pymdownx.highlight = {{}}
pymdownx.inlinehilite = {{}}
pymdownx.superfences = {{}}
"""
