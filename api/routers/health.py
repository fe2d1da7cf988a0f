"""Whether the process lives, and whether it can serve. No key is needed."""

from fastapi import APIRouter
from pydantic import BaseModel
from sqlalchemy.exc import SQLAlchemyError

from api.http.problems import ProblemError
from api.openapi import problems
from api.shared.resources import Shared
from models.schema import schema_state

router = APIRouter(prefix="/health", tags=["health"])


class Health(BaseModel):
    """A sign of life."""

    status: str = "ok"


@router.get("/live")
async def live() -> Health:
    """Whether the process answers."""
    return Health()


@router.get("/ready", responses={503: problems()[503]})
def ready(resources: Shared) -> Health:
    """Whether the database answers and has the schema that this version needs."""
    try:
        state = schema_state(resources.database)
    except SQLAlchemyError:
        raise ProblemError(503, "unavailable", "the database does not answer") from None
    if not state.matches:
        raise ProblemError(
            503,
            "unavailable",
            f"the database's schema is {state.current or 'empty'} and {state.head} is needed; "
            "run `fedaudit migrate`",
        )
    return Health()
