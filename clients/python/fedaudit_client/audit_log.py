"""Calls on the audit log: who did what in the key's project."""

from collections.abc import AsyncGenerator

from fedaudit_client.http.answers import Json, json_object
from fedaudit_client.http.calls import Calls, call, pages, stream
from fedaudit_client.http.request import Request


class AuditLogCalls(Calls):
    """What can be asked of the log. The key needs the scope `admin`."""

    @stream
    def audit_log(self, /, **filters: str) -> AsyncGenerator[Json, None]:
        """The entries, newest first; `filters` as `actor`, `action`, `subject`, `created_after`."""
        return pages(self._wire, "audit-log", filters, Json)

    @call
    def verify_audit_log(self) -> Request[Json]:
        """Whether the log is what was written, and the newest signed head."""
        return Request("GET", "audit-log/verification", json_object)
