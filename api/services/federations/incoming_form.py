"""A browser's form with a file: the session's word first, then the file."""

from collections.abc import Callable

from api.http.problems import invalid
from api.services.federations.form_parts import Part
from api.services.federations.incoming_file import ArrivedFile, IncomingFile, base_name
from infrastructure.storage import Storage

_MAX_WORD_BYTES = 1000


class IncomingForm:
    """Takes the parts of the form; nothing is stored of one whose word is not accepted.

    To be ended by `finish` or `abort`; after an abort nothing is stored.
    """

    def __init__(
        self,
        storage: Storage,
        storage_key: str,
        *,
        largest_bytes: int,
        word: str,
        check: Callable[[str], None],
    ) -> None:
        """`word`: the name of the field that `check` is given, which raises for a wrong one."""
        self._storage = storage
        self._key = storage_key
        self._largest = largest_bytes
        self._name = word
        self._check = check
        self._given: bytearray | None = None
        self._accepted = False
        self._file: IncomingFile | None = None

    def begin(self, part: Part) -> None:
        """A part begins. Raises ProblemError for one that is not expected here."""
        if part.name == self._name and self._given is None:
            self._given = bytearray()
        elif part.name == "file" and self._file is None:
            self._accept()
            # A browser sends a part without a name where no file was chosen.
            if not part.file_name:
                raise invalid("/file", "choose a file")
            self._file = IncomingFile(
                self._storage,
                self._key,
                file_name=base_name(part.file_name),
                largest_bytes=self._largest,
            )
        else:
            raise invalid("", "the form has a part that is not expected; open the page again")

    def data(self, data: bytes) -> None:
        """The next chunk of the part. Raises ProblemError, StorageError."""
        if self._file is not None:
            self._file.data(data)
        elif self._given is not None and len(self._given) < _MAX_WORD_BYTES:
            self._given += data

    def end(self) -> None:
        """The part is complete."""

    def finish(self) -> ArrivedFile:
        """The file, once the form is complete. Raises ProblemError where it has none."""
        self._accept()
        if self._file is None:
            raise invalid("/file", "choose a file")
        return self._file.finish()

    def abort(self) -> None:
        """Abort, and leave nothing stored."""
        if self._file is not None:
            self._file.abort()

    def _accept(self) -> None:
        if not self._accepted:
            self._check((self._given or b"").decode("utf-8", "replace"))
            self._accepted = True
