"""The SQL views of gates and of the chain of audit records."""

from sim.record.audit_chain import AuditRecord
from sim.record.views import VIEWS, view_of

VIEWS["audit"] = view_of(
    AuditRecord,
    "One row an audit record: what agents did with tools, and what people approved.",
    {"agent": "actor", "n": "$n", "what": "$what", "data": "$data", "previous": "$previous", "hash": "$hash"},
)

VIEWS["gates"] = """
        -- One row a call of a tool that a person had to approve.
        SELECT min(id) AS id, min(time) AS time, min(time_ns) AS time_ns,
               data ->> '$.gate' AS gate,
               max(data ->> '$.agent') AS agent,
               max(data ->> '$.tool') AS tool,
               max(CASE topic WHEN 'gate.pending' THEN data ->> '$.reason' END) AS reason,
               max(CASE topic WHEN 'gate.arguments' THEN data -> '$.arguments' END) AS arguments,
               max(data ->> '$.arguments_hash') AS arguments_hash,
               max(data ->> '$.expires_ns') / 1e9 AS expires,
               CASE WHEN max(topic = 'gate.used') THEN 'used' WHEN max(topic = 'gate.cancelled') THEN 'cancelled'
                    WHEN max(topic = 'gate.expired') THEN 'expired' WHEN max(topic = 'gate.denied') THEN 'denied'
                    WHEN max(topic = 'gate.approved') THEN 'approved' ELSE 'pending' END AS status,
               max(CASE WHEN topic IN ('gate.approved', 'gate.denied') THEN time END) AS decided,
               max(data ->> '$.by') AS decided_by,
               max(data ->> '$.note') AS note
        FROM events WHERE topic GLOB 'gate.*' AND topic <> 'gate.refused' GROUP BY data ->> '$.gate' ORDER BY 1
    """
