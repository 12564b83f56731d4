"""HTML and SVG in which all text is escaped: self-contained files, and what a notebook shows.

Modules:

    document  a page with its style and script, and a content security policy
    markup    HTML and SVG elements with escaped text
    tables    tables as HTML or as text
    chart     line charts over simulated time, as images
    lanes     pictures of steps in simulated time, as images
"""

from sim.base.pages.chart import Chart, line_chart
from sim.base.pages.document import document, embedded
from sim.base.pages.lanes import Dot, lane_chart
from sim.base.pages.markup import Markup, svg, tag
from sim.base.pages.tables import Table

__all__ = ["Chart", "Dot", "Markup", "Table", "document", "embedded", "lane_chart", "line_chart", "svg", "tag"]
