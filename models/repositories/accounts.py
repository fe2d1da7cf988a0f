"""Projects, API keys, sessions, repeated requests, and what a project uses."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, bindparam, exists, func, or_, select, tuple_, update

from models.clock import seconds_from_now
from models.person import Actor, Identity, Person
from models.repositories.base import Repository, ScopedRepository, table_of
from models.tables.accounts import ApiKey, IdempotencyKey, Project, RequestMinute, WebSession
from models.tables.experiments import Experiment, LaterAttacks
from models.tables.federations import Artifact, Federation, PendingUpload
from models.values import OPEN, new_id, utc_now


class ProjectRepository(Repository):
    """All projects: used before a project is known, and for the name of one that is."""

    def name(self, id: str) -> str:
        """A project's name. Raises sqlalchemy.exc.NoResultFound where there is no such one."""
        return self.session.scalars(select(Project.name).where(Project.id == id)).one()

    def get_or_create(self, name: str) -> Project:
        """The project of this name; two callers at once get the same one."""
        self._insert_absent(Project, {"id": new_id(), "name": name, "created_at": utc_now()})
        return self.session.scalars(select(Project).where(Project.name == name)).one()

    def ids(self) -> list[str]:
        """All of them, in the order in which their logs are entered."""
        return list(self.session.scalars(select(Project.id).order_by(Project.id)))


_MARK = "fa_"
_SHOWN_CHARACTERS = 10


class ApiKeyRepository(Repository):
    """Keys across projects: a key determines the project."""

    def create(
        self,
        *,
        project_id: str,
        name: str,
        scopes: Sequence[str],
        person: Person | None = None,
        created_by: Actor | None = None,
    ) -> tuple[ApiKey, str]:
        """A new key and its plain text, which is shown this once and cannot be read back."""
        plain = _new_secret()
        key = ApiKey(
            id=new_id(),
            project_id=project_id,
            name=name,
            prefix=plain[:_SHOWN_CHARACTERS],
            hash=hash_of_key(plain),
            scopes=list(scopes),
            person=None if person is None else vars(person),
            created_at=utc_now(),
            created_by=None if created_by is None else vars(created_by),
            revoked_at=None,
        )
        return self.store(key), plain

    def of_identity(self, identity: Identity, project: str) -> ApiKey | None:
        """The row of a person in the project of this name, also a revoked one; None before their
        first request."""
        return self._one(select(ApiKey).where(ApiKey.id == identity.key_id(project)))

    def admit(self, identity: Identity, project: str, person: Person | None) -> tuple[ApiKey, bool]:
        """The row of a person in a project, under the name that they have now, and whether it is
        new. No secret opens it: none has a hash of this form."""
        id_ = identity.key_id(project)
        row: dict[str, Any] = {
            "id": id_,
            "project_id": ProjectRepository(self.session).get_or_create(project).id,
            "name": identity.key_name(),
            "prefix": "",
            "hash": f"identity:{id_}",
            "scopes": [],
            "identity": vars(identity),
            "created_at": utc_now(),
        }
        new = self._insert_absent(ApiKey, row)
        if person is not None:
            self._set(ApiKey, ApiKey.id == id_, person=vars(person))
        return self.session.scalars(select(ApiKey).where(ApiKey.id == id_)).one(), new

    def find(self, secret_hash: str) -> ApiKey | None:
        """The columns of the key that the secret with this hash (`hash_of_key`) opens, unless
        revoked. As it is looked up by hash, the duration reveals nothing."""
        return next(iter(self._rows(_OPENED, secret_hash=secret_hash)), None)

    def rotate(self, project_id: str, id: str, *, overlap: timedelta) -> tuple[ApiKey, str] | None:
        """The key with a new secret, and its plain text; None if this project has no such key in
        force. The previous secret works for `overlap` more; the one before that ends at once. The
        row of an identity never gets a secret: its holder would act in that person's name."""
        mine = (ApiKey.id == id, ApiKey.project_id == project_id, ApiKey.revoked_at.is_(None))
        secret = ApiKey.identity.is_(None)
        key = self._one(select(ApiKey).where(*mine, secret).with_for_update())
        if key is None:
            return None
        plain, now = _new_secret(), utc_now()
        key.previous_hash = key.hash if overlap else None
        key.previous_until = now + overlap if overlap else None
        key.hash, key.prefix = hash_of_key(plain), plain[:_SHOWN_CHARACTERS]
        key.rotated_at = now
        self.session.flush()
        return key, plain

    def list(self, project_id: str) -> list[ApiKey]:
        """A project's keys, also the revoked ones, oldest first."""
        return self._all(
            select(ApiKey)
            .where(ApiKey.project_id == project_id)
            .order_by(ApiKey.created_at, ApiKey.id)
        )

    def revoke(self, project_id: str, id: str) -> bool:
        """Ends a key; False where this project has no such key in force."""
        mine = (ApiKey.id == id, ApiKey.project_id == project_id, ApiKey.revoked_at.is_(None))
        return self._set(ApiKey, *mine, revoked_at=utc_now())


def hash_of_key(plain: str) -> str:
    """What is stored of a secret: of a key, or of a session's token."""
    # Either holds 256 random bits: a slow hash would protect nothing and cost every request.
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()


def opens(secret_hash: ColumnElement[str]) -> ColumnElement[bool]:
    """Condition of a query: the key is in force and this secret opens it, its own or the previous
    one during the overlap, by the database's clock."""
    before = and_(ApiKey.previous_hash == secret_hash, ApiKey.previous_until > seconds_from_now())
    return and_(ApiKey.revoked_at.is_(None), or_(ApiKey.hash == secret_hash, before))


_OPENED = select(*table_of(ApiKey).c).where(opens(bindparam("secret_hash", type_=ApiKey.hash.type)))


def _new_secret() -> str:
    return _MARK + secrets.token_urlsafe(32)


@dataclass(frozen=True)
class FoundSession:
    """A session in force: the key it was begun with, as it is now, and that key's project."""

    key: ApiKey
    project_name: str
    groups: list[str] | None
    """Groups of a person who signed in elsewhere."""


class WebSessionRepository(Repository):
    """Sessions across projects: the key of a session determines the project."""

    def begin(
        self,
        key: ApiKey,
        *,
        seconds: float,
        secret_hash: str | None = None,
        groups: Sequence[str] | None = None,
    ) -> str:
        """The token of a new session, returned only this once; expired sessions are removed.
        `secret_hash`: the secret that it begins and ends with; by default the key's newest."""
        self._delete(WebSession, WebSession.expires_at <= seconds_from_now())
        token = secrets.token_urlsafe(32)
        row = {
            "token_hash": hash_of_key(token),
            "api_key_id": key.id,
            "project_id": key.project_id,
            "key_hash": secret_hash or key.hash,
            "groups": None if groups is None else list(groups),
            "created_at": seconds_from_now(),
            "expires_at": seconds_from_now(seconds),
        }
        self.session.execute(table_of(WebSession).insert().values(row))
        return token

    def find(self, token: str) -> FoundSession | None:
        """None for an unknown or ended session, or one whose key was revoked or given another
        secret."""
        found = self.session.execute(
            select(ApiKey, Project.name, WebSession.groups)
            .join(WebSession, WebSession.api_key_id == ApiKey.id)
            .join(Project, Project.id == ApiKey.project_id)
            .where(
                WebSession.token_hash == hash_of_key(token),
                WebSession.expires_at > seconds_from_now(),
                opens(table_of(WebSession).c.key_hash),
            )
        ).one_or_none()
        return None if found is None else FoundSession(*found)

    def end(self, token: str) -> None:
        """Ends a session; nothing happens where there is none."""
        self._delete(WebSession, WebSession.token_hash == hash_of_key(token))


_TAKEN = select(IdempotencyKey).where(
    IdempotencyKey.api_key_id == bindparam("api_key_id"),
    IdempotencyKey.route == bindparam("route"),
    IdempotencyKey.key == bindparam("key"),
)


class IdempotencyRepository(Repository):
    """Keys by caller and route: the same key elsewhere is another key."""

    def find(self, api_key_id: str, route: str, key: str) -> IdempotencyKey | None:
        """What this caller's earlier request with the key came to; compare its `body_hash`."""
        return self._one(_TAKEN, api_key_id=api_key_id, route=route, key=key)

    def add(self, **columns: str) -> bool:
        """Takes a key, stored with these columns; False if it is taken. Call it first in the
        transaction: a simultaneous request then waits and sees False, so that the work is done
        once."""
        return self._insert_absent(IdempotencyKey, {**columns, "created_at": utc_now()})

    def forget(self, older_than: timedelta, *, limit: int) -> int:
        """Deletes old keys, whose requests then count as new; returns how many."""
        columns = (IdempotencyKey.api_key_id, IdempotencyKey.route, IdempotencyKey.key)
        before = seconds_from_now(-older_than.total_seconds())
        old = select(*columns).where(IdempotencyKey.created_at < before).limit(limit)
        return self._delete(IdempotencyKey, tuple_(*columns).in_(old))


class ProjectUsageRepository(ScopedRepository):
    """Counts within the transaction that adds to them: count after adding, then roll back."""

    def hold(self) -> None:
        """Other holders of the project wait until this transaction ends; call it last. Rows that
        refer to the project can still be added."""
        mine = select(Project.id).where(Project.id == self.project_id)
        self.session.execute(mine.with_for_update(key_share=True))

    def running(self) -> int:
        """Experiments, and attacks on ended ones, that are queued or have not ended."""
        found = 0
        for table in (Experiment, LaterAttacks):
            mine = (self._own(table), table_of(table).c.status.in_(OPEN))
            found += int(self.session.scalar(select(func.count()).where(*mine)) or 0)
        return found

    def stored_bytes(self) -> int:
        """Size of the files that the project uploaded and the service keeps."""
        total = 0
        for table in (Federation, Artifact, PendingUpload):
            columns = table_of(table).c
            kept = select(func.sum(columns.size_bytes)).where(self._own(table))
            if table is Federation:
                # One that was registered by its path takes no room here.
                kept = kept.where(columns.storage_key.is_not(None))
            if table is PendingUpload:
                # While it is registered, a federation has the same file.
                same = Federation.storage_key == PendingUpload.storage_key
                kept = kept.where(~exists().where(same, self._own(Federation)))
            total += int(self.session.scalar(kept) or 0)
        return total

    def count_request(self, minute: int) -> int:
        """Counts one more request in this minute; returns how many there were."""
        first = {"project_id": self.project_id, "minute": minute, "requests": 1}
        mine = self._own(RequestMinute)
        if self._insert_absent(RequestMinute, first):
            # The first of a minute tidies those before; a minute more for clocks that differ.
            self._delete(RequestMinute, mine, RequestMinute.minute < minute - 2)
            return 1
        more = update(RequestMinute).values(requests=RequestMinute.requests + 1)
        this_minute = more.where(mine, RequestMinute.minute == minute)
        return int(self._returned(this_minute, RequestMinute.requests).scalar_one())
