"""Tools: what agents call, who may call it, and what is kept of each call.

Modules: `tool` (the record of a tool, and what makes one of a function), `schema` (JSON Schemas from signatures),
`registry` (the tools of a world, and the steps of a call), `actions` (`use_tool`), `access` (who may call what),
`approvals` (calls that a person must approve first), `office_hours` (when a simulated person works), `audit` (the
chain of audit records), `process` and `sandbox` (commands in a sandbox), `mcp`, `mcp_servers` and `mcp_transport`
(tools of MCP servers).
"""

from typing import TYPE_CHECKING

from sim.late import late_names
from sim.tools.tool import Tool, tool  # not late: the function has the name of its module

if TYPE_CHECKING:
    from sim.tools.access import Access
    from sim.tools.actions import use_tool
    from sim.tools.approvals import Approvals
    from sim.tools.audit import Audit
    from sim.tools.registry import Tools
    from sim.tools.schema import Given
    from sim.tools.section import ToolsSettings

__all__ = ["Access", "Approvals", "Audit", "Given", "Tool", "Tools", "ToolsSettings", "tool", "use_tool"]

_HOMES = {
    "access": "Access",
    "actions": "use_tool",
    "approvals": "Approvals",
    "audit": "Audit",
    "registry": "Tools",
    "schema": "Given",
    "section": "ToolsSettings",
}

if not TYPE_CHECKING:
    __getattr__ = late_names(__name__, _HOMES)
