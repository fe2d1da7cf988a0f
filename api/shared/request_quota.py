"""How many requests a project may make a minute, counted by all API processes together."""

import time

from starlette.types import Scope

from api.http.problems import ProblemError
from api.http.rate_limits import limit_headers
from api.shared.resources import Resources
from models.repositories import ProjectUsageRepository

_SECONDS = 60


def count_request(resources: Resources, project_id: str, scope: Scope) -> None:
    """Raises ProblemError where the project has made all requests of this minute."""
    limit = resources.settings.quota_requests_per_minute
    if limit is None:
        return
    now = int(time.time())
    with resources.database.write() as session:
        used = ProjectUsageRepository(session, project_id).count_request(now // _SECONDS)
    left = _SECONDS - now % _SECONDS
    limit_headers(scope, limit=limit, used=used, seconds_left=left)
    if used > limit:
        raise ProblemError(
            429,
            "rate-limited",
            f"the project has made its {limit} requests of this minute "
            f"(FEDAUDIT_QUOTA_REQUESTS_PER_MINUTE); send the request again in {left} seconds, or "
            "ask whoever runs the service for more",
            headers={"Retry-After": str(left)},
            quota="requests-per-minute",
            limit=limit,
        )
