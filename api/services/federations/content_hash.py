"""The fingerprint of a file during upload: SHA-256 of its content, gzip undone."""

import hashlib
import zlib

_GZIP = b"\x1f\x8b"
_WITH_GZIP_HEADER = 16 + zlib.MAX_WBITS
_BLOCK = 2**20


class DamagedError(ValueError):
    """The file begins like a gzip file, but is not a valid one or is truncated."""


class TooLargeError(ValueError):
    """The content is larger than permitted."""


class ContentHash:
    """Takes a file in chunks; a small file may expand to any size, so the expansion is limited."""

    def __init__(self, largest_bytes: int) -> None:
        self._digest = hashlib.sha256()
        self._left = largest_bytes
        self._head: bytes | None = b""
        """The first bytes, kept until they show whether the file is compressed; then None."""
        self._compressed = False
        self._inflater = zlib.decompressobj(wbits=_WITH_GZIP_HEADER)

    def update(self, data: bytes) -> None:
        """The next chunk. Raises TooLargeError, DamagedError."""
        if self._head is not None:
            self._head += data
            if len(self._head) < len(_GZIP):
                return
            data, self._head = self._head, None
            self._compressed = data.startswith(_GZIP)
        if self._compressed:
            self._inflate(data)
        else:
            self._take(data)

    def finish(self) -> str:
        """The digest in hexadecimal, after the last chunk. Raises DamagedError."""
        if self._head:
            self._take(self._head)
        if self._compressed and not self._inflater.eof:
            raise DamagedError("the gzip file breaks off; compress it again")
        return self._digest.hexdigest()

    def _inflate(self, data: bytes) -> None:
        """A gzip file may have several members, each followed by zeros."""
        full = False
        while data or full:
            if self._inflater.eof:
                data = data.lstrip(b"\0")
                if not data:
                    return
                self._inflater = zlib.decompressobj(wbits=_WITH_GZIP_HEADER)
            try:
                block = self._inflater.decompress(data, _BLOCK)
            except zlib.error:
                raise DamagedError("the gzip file is damaged; compress it again") from None
            self._take(block)
            full = len(block) == _BLOCK and not self._inflater.eof
            data = self._inflater.unused_data or self._inflater.unconsumed_tail

    def _take(self, content: bytes) -> None:
        self._left -= len(content)
        if self._left < 0:
            raise TooLargeError
        self._digest.update(content)
