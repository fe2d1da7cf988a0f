"""Federations of one project."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Select, select

from models.repositories.audits import attacked_experiments
from models.repositories.base import RowRepository
from models.repositories.budgets.budgets import Budgets
from models.repositories.units import UnitRepository
from models.tables.experiments import Experiment
from models.tables.federations import Content, Federation, RowSketch
from models.values import OPEN, Cursor, NewFile, Page, Simulation, new_id, utc_now

_IN_GOOD_ORDER = ("profiling", "ready")


class FederationRepository(RowRepository[Federation]):
    """A project's federations. The same content is one federation, named by path, registered or
    uploaded, even after deletion: its spending stays with it."""

    _table = Federation

    def get_or_create(
        self, fingerprint: str, *, made_up: bool = False, **columns: Any
    ) -> Federation:
        """The federation with this data; a new one is ready and has these columns. `made_up`:
        synthetic data, which projects do not share."""
        new = {"fingerprint": fingerprint, **columns, "status": "ready"}
        self._add_absent(new, made_up=made_up)
        return self.session.scalars(self._has(fingerprint)).one()

    def find(self, fingerprint: str) -> Federation | None:
        """The federation with this data, in whatever state; None where there is none."""
        return self._one(self._has(fingerprint))

    def of_owner(self, fingerprint: str) -> Federation | None:
        """The owner's federation with this data, if another project owns it."""
        owner = select(Content.owner_project_id).where(Content.fingerprint == fingerprint)
        return self._one(
            select(Federation).where(
                Federation.fingerprint == fingerprint,
                Federation.project_id == owner.scalar_subquery(),
                Federation.project_id != self.project_id,
            )
        )

    def is_known(self, fingerprint: str) -> bool:
        """Whether this is the data of any project's federation."""
        return self._exists(Content.fingerprint == fingerprint)

    def units(self, federation_id: str | None, unit: str) -> int:
        """Clients or records of a federation by its last profile; 0 without either."""
        mine = None if federation_id is None else self.get(federation_id)
        profile = {} if mine is None else mine.profile
        return int(profile.get("clients" if unit == "client" else "rows", 0))

    def disclosures(self, federation_id: str) -> list[Mapping[str, Any]]:
        """The disclosure policies that apply: the project's own, and the content owner's."""
        mine = self.get(federation_id)
        if mine is None:
            return []
        rows = (mine, self.of_owner(mine.fingerprint))
        return [row.disclosure for row in rows if row is not None and row.disclosure is not None]

    def registered_at(self, path: str) -> Federation | None:
        """The newest ready federation registered by this path below the sources. Compare its
        fingerprint: the file may have changed."""
        named = Federation.registration["federation"]["path"].as_string() == path
        found = self._select(Federation).where(
            Federation.status == "ready", Federation.storage_key.is_(None), named
        )
        return self.session.scalars(found.order_by(Federation.id.desc()).limit(1)).first()

    def register(self, file: NewFile, *, unit_id: str) -> Federation:
        """The federation with this data, now to be profiled by the unit under this registration; a
        content without an owner becomes this project's. A stored file stays (compare
        `storage_key`), except after a rejection, which it may have caused. An earlier unit that has
        not begun is withdrawn."""
        new = {"fingerprint": file.fingerprint, "profile": {}, "status": "profiling"}
        self._add_absent({**file.named, **new})
        # The weaker lock: it does not stop rows from being added that refer to this one.
        held = self._has(file.fingerprint).with_for_update(key_share=True)
        before = self.session.scalars(held).one()
        Budgets(self.session, self.project_id).claim(before.id)
        if before.unit_id is not None:
            UnitRepository(self.session).withdraw(before.unit_id)
        values: dict[str, Any] = dict.fromkeys(("reasons", "profiled_at", "deleted_at"))
        if before.storage_key is None or before.status not in _IN_GOOD_ORDER:
            values |= _place(file)
        values |= {**file.named, "registration": file.registration, "unit_id": unit_id}
        values["profile"] = _sizes(before.profile)
        return self._changed(before.id, **values, status="profiling")

    def attach(self, id: str, file: NewFile) -> None:
        """Notes where the file of a federation is stored that had none; its profile stays."""
        self._update(id, registration=file.registration, **_place(file))

    def set_simulation(self, id: str, simulation: Simulation) -> Federation:
        """Whether experiments admitted from now on may simulate noise. Raises LookupError for an
        unknown federation."""
        return self._changed(id, simulation=simulation)

    def set_disclosure(self, id: str, policy: Mapping[str, Any] | None) -> Federation:
        """What experiments admitted from now on may ask of its groups. It outlives the file, as
        spending does. Raises LookupError for an unknown federation."""
        return self._changed(id, disclosure=policy, disclosure_set_at=utc_now())

    def of_unit(self, unit_id: str) -> Federation | None:
        """The federation that a unit is to profile; None if it was deleted, registered anew, or is
        profiled."""
        mine = (Federation.unit_id == unit_id, Federation.status == "profiling")
        return self._one(self._select(Federation).where(*mine))

    def set_ready(self, id: str, profile: Mapping[str, Any], *, unit_id: str) -> bool:
        """profiling -> ready; False where the unit no longer has it to profile."""
        more = Federation.profiles + 1
        return self._profiled(id, unit_id, status="ready", profile=profile, profiles=more)

    def set_rejected(self, id: str, reasons: Sequence[Mapping[str, Any]], *, unit_id: str) -> bool:
        """profiling -> rejected, for {pointer, message}; False as with `set_ready`."""
        return self._profiled(id, unit_id, status="rejected", reasons=reasons)

    def in_use(self, id: str) -> bool:
        """Whether an experiment on it, or an attack on one, is queued or running."""
        is_open = Experiment.status.in_(OPEN) | Experiment.id.in_(attacked_experiments())
        return self._exists(self._own(Experiment), Experiment.federation_id == id, is_open)

    def used(self, id: str) -> bool:
        """Whether any experiment was ever submitted on it."""
        return self._exists(self._own(Experiment), Experiment.federation_id == id)

    def mark_deleted(self, id: str) -> bool:
        """Any status -> deleted, without sketch, and of the profile with the sizes alone, by which
        ledgers that name it are judged; False if it was deleted before. `storage_key` stays until
        `forget_file`."""
        found = self.lock(id)
        if found is None or found.status in ("deleted", "erased"):
            return False
        if found.unit_id is not None:
            UnitRepository(self.session).withdraw(found.unit_id)
        self._delete(RowSketch, RowSketch.federation_id == id)
        gone: dict[str, Any] = {"reasons": None, "deleted_at": utc_now()}
        self._update(id, status="deleted", profile=_sizes(found.profile), **gone)
        return True

    def forget_file(self, id: str, storage_key: str) -> None:
        """Records that the stored file of a deleted federation is gone."""
        stored = (Federation.storage_key == storage_key, Federation.status == "deleted")
        self._update(id, *stored, storage_key=None)

    def list(
        self, *, status: str | None = None, cursor: Cursor | None = None, limit: int = 50
    ) -> Page[Federation]:
        """Newest first; the cursor is (id,)."""
        statement = self._select(Federation)
        if status is not None:
            statement = statement.where(Federation.status == status)
        return self._page(statement, Federation.id, cursor, limit)

    def _add_absent(self, values: Mapping[str, Any], *, made_up: bool = False) -> None:
        """A row for new data; nothing where the project has the data already."""
        if not made_up:
            content = {"fingerprint": values["fingerprint"], "owner_project_id": None}
            self._insert_absent(Content, content)
        row = {"id": new_id(), "project_id": self.project_id, "created_at": utc_now(), **values}
        self._insert_absent(Federation, row)

    def _has(self, fingerprint: str) -> Select[Federation]:
        found = self._select(Federation).where(Federation.fingerprint == fingerprint)
        return found.execution_options(populate_existing=True)

    def _profiled(self, id: str, unit_id: str, **values: Any) -> bool:
        profiling = (Federation.unit_id == unit_id, Federation.status == "profiling")
        return self._update(id, *profiling, profiled_at=utc_now(), **values)

    def _changed(self, id: str, **values: Any) -> Federation:
        found = self.lock(id)
        if found is None:
            raise LookupError(f"federation {id}: this project has no such federation")
        self._update(id, **values)
        self.session.refresh(found)
        return found


def _sizes(profile: Mapping[str, Any]) -> dict[str, Any]:
    """By which ledgers that name a federation are judged, whether or not it is ready."""
    return {name: profile[name] for name in ("clients", "rows") if name in profile}


def _place(file: NewFile) -> dict[str, Any]:
    return {name: getattr(file, name) for name in ("storage_key", "file_name", "size_bytes")}
