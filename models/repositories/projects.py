"""Projects by name."""

from sqlalchemy import select

from models.clock import utc_now
from models.identifiers import new_id
from models.repositories.base import Repository
from models.tables.projects import Project


class ProjectRepository(Repository):
    """All projects: used before a project is known, and for the name of one that is."""

    def name(self, id: str) -> str:  # noqa: A002
        """A project's name. Raises sqlalchemy.exc.NoResultFound where there is no such one."""
        return self.session.scalars(select(Project.name).where(Project.id == id)).one()

    def get_or_create(self, name: str) -> Project:
        """The project of this name; two callers at once get the same one."""
        self._insert_absent(Project, {"id": new_id(), "name": name, "created_at": utc_now()})
        return self.session.scalars(select(Project).where(Project.name == name)).one()

    def ids(self) -> list[str]:
        """All of them, in the order in which their logs are entered."""
        return list(self.session.scalars(select(Project.id).order_by(Project.id)))
