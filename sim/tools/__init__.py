"""Tools: what agents call, who may call it, who approves it, and what is kept of each call.

May import: `actors`, `host` and below. Read first: `tool.py` (makes a tool of a function), `registry.py` (the steps of
a call), `access.py` (who may call what).
"""

from typing import TYPE_CHECKING

from sim.base.late import late_names
from sim.tools.tool import Tool, tool  # not late: the function has the name of its module

if TYPE_CHECKING:
    from sim.tools.access import ToolAccess
    from sim.tools.actions import use_tool
    from sim.tools.approvals import Approvals
    from sim.tools.audit import Audit
    from sim.tools.registry import Tools
    from sim.tools.schema import Given
    from sim.tools.section import ToolsSettings

__all__ = ["Approvals", "Audit", "Given", "Tool", "ToolAccess", "Tools", "ToolsSettings", "tool", "use_tool"]

_HOMES = {
    "access": "ToolAccess",
    "actions": "use_tool",
    "approvals": "Approvals",
    "audit": "Audit",
    "registry": "Tools",
    "schema": "Given",
    "section": "ToolsSettings",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(__name__, _HOMES)
