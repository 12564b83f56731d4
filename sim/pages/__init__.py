"""Self-contained HTML files: the page template, the common style, and markup that escapes all text.

Modules:

    document  a page with its style and script, and a content security policy
    markup    HTML and SVG elements with escaped text
"""

from sim.pages.document import document
from sim.pages.markup import Markup, svg, tag

__all__ = ["Markup", "document", "svg", "tag"]
