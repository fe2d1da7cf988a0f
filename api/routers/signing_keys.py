"""The keys that the service signs with, and has signed with."""

from fastapi import APIRouter

from api.openapi import problems
from api.schemas.reports import SigningKeyBody, SigningKeyList
from api.shared.resources import Shared
from api.shared.security import ReportsReader
from models.repositories import SigningKeyRepository

router = APIRouter(prefix="/signing-keys", tags=["keys"])


@router.get("", responses=problems())
def list_signing_keys(_caller: ReportsReader, resources: Shared) -> SigningKeyList:
    """Every public key, also the retired ones, oldest first.

    What they sign is trusted only as far as the way by which a key was received.
    """
    with resources.database.read() as session:
        keys = SigningKeyRepository(session).list()
    return SigningKeyList(items=[SigningKeyBody.of(key) for key in keys])
