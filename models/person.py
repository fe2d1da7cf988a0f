"""Whom an API key belongs to, as the administrator who made the key named them, or an identity
provider did."""

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import NAMESPACE_URL, uuid5

MAX_CHARACTERS = 200


@dataclass(frozen=True)
class Person:
    """A person by name, with address and role if given. Only the form is checked: the administrator
    who makes the key chooses the name."""

    name: str
    email: str | None = None
    role: str | None = None

    def __post_init__(self) -> None:
        """Tidies the texts. Raises ValueError for one that is empty, too long or deceptive."""
        object.__setattr__(self, "name", tidy_line(self.name, what="the person's name"))
        if self.role is not None:
            object.__setattr__(self, "role", tidy_line(self.role, what="the person's role"))
        if self.email is not None:
            object.__setattr__(self, "email", mail_address(self.email))

    @classmethod
    def of(cls, value: Mapping[str, Any] | None) -> "Person | None":
        """The person whose fields were stored; None where there was none."""
        return None if value is None else cls(**value)


@dataclass(frozen=True)
class Identity:
    """Who signs in elsewhere, by what stays the same when names change."""

    issuer: str
    subject: str
    """Unique at the issuer, and never given to anyone else."""

    def key_name(self) -> str:
        """What it is called where keys are named."""
        return f"{self.subject} at {self.issuer}"

    def key_id(self, project: str) -> str:
        """A UUIDv5, which anyone can compute, of a JSON list: issuer, subject, project. Keys have a
        UUIDv7, so none can pass for a person."""
        return str(uuid5(NAMESPACE_URL, json.dumps([self.issuer, self.subject, project])))


@dataclass(frozen=True)
class Actor:
    """The actor: the key, and its person's name at the time."""

    key_id: str
    key_name: str
    person: str | None
    """None for a key without a person."""


def tidy_line(text: str, *, what: str) -> str:
    """One line in normal form. Raises ValueError if it is empty or too long, or has invisible or
    direction-changing characters, with which one name could look like another."""
    tidied = " ".join(unicodedata.normalize("NFC", text).split())
    if not tidied:
        raise ValueError(f"{what} is empty; write it, or leave it out")
    if len(tidied) > MAX_CHARACTERS:
        raise ValueError(f"{what} has {len(tidied)} characters; {MAX_CHARACTERS} are allowed")
    if any(unicodedata.category(one).startswith("C") for one in tidied):
        raise ValueError(f"{what} contains characters that cannot be seen; leave them out")
    return tidied


def tidy_paragraphs(text: str, *, what: str) -> str:
    """Text of several lines in normal form. Raises ValueError for characters that control a
    terminal or change the direction of writing."""
    lines = unicodedata.normalize("NFC", text).splitlines()
    tidied = "\n".join(line.rstrip() for line in lines).strip()
    refused = [one for one in tidied if one not in "\n\t" and _misleads(one)]
    if refused:
        raise ValueError(f"{what} contains characters that cannot be seen; leave them out")
    return tidied


def _misleads(character: str) -> bool:
    turns = unicodedata.bidirectional(character)
    hidden = unicodedata.category(character) in ("Cc", "Cs", "Cn", "Co")
    return hidden or turns in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


def mail_address(text: str) -> str:
    """The address, tidied. Raises ValueError for what has not the form of one."""
    address = tidy_line(text, what="the mail address")
    name, _, domain = address.partition("@")
    if not name or not domain or " " in address or "@" in domain:
        raise ValueError(f"{address!r} is no mail address; write ada@example.org")
    return address
