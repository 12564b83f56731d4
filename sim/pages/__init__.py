"""HTML files that need nothing else: the shell, the common style, and markup that trusts no text.

Of these parts:

    document  one file under a policy that lets only its own style and script act, and loads nothing from anywhere
    markup    elements whose text is escaped
"""

from sim.pages.document import document
from sim.pages.markup import Markup, svg, tag

__all__ = ["Markup", "document", "svg", "tag"]
