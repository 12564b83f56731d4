"""Tools: what agents call, who may call it, who approves it, and what is kept of each call.

May import: `actors`, `host` and below. Read first: `tool.py` (makes a tool of a function), `registry.py` (the steps of
a call), `access.py` (who may call what).
"""

from sim.tools.access import Access
from sim.tools.actions import use_tool
from sim.tools.approvals import Approvals
from sim.tools.audit import Audit
from sim.tools.registry import Tools
from sim.tools.schema import Given
from sim.tools.section import ToolsSettings
from sim.tools.tool import Tool, tool

__all__ = ["Access", "Approvals", "Audit", "Given", "Tool", "Tools", "ToolsSettings", "tool", "use_tool"]
