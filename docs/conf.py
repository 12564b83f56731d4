"""Settings of the documentation site. CONTRIBUTING.md has the command that builds it."""

import sim

project = "sim"
author = "The sim authors"
version = release = sim.__version__

# The source folder is the root of the project, so that a link between pages works in the repository and on the site.
root_doc = "docs/index"
include_patterns = ["*.md", "benchmarks/README.md", "docs/*.md", "docs/*/*.md"]
exclude_patterns = [".*", "*.egg-info", "bench", "build", "dist", "runs", "scenarios", "sim", "tests"]
html_extra_path = ["redirect/index.html"]  # the way from the site's root to the page `docs/index`

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_heading_anchors = 4
default_role = "py:obj"  # `name` in a docstring links to that name, if the reference has it
autodoc_default_options = {"members": True, "exclude-members": "model_config"}
autodoc_member_order = "bysource"
napoleon_use_ivar = True
maximum_signature_line_length = 100
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"sim {version}"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_show_sphinx = html_show_copyright = False
smartquotes = False  # `--option` stays as it is typed
html_copy_source = False
