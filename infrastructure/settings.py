"""Which projects may read which files below the sources folder, as the operator declares it.

A YAML (or JSON) file of one mapping: a file, a folder or a pattern, and the projects that may read
it and everything below it.

    acme: [acme]                  # a folder
    shared: [acme, beta]
    public/*.csv: ["*"]           # every project
"""

import os
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from importlib.util import find_spec
from ipaddress import ip_network
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, Self, TypeVar
from urllib.parse import quote, urlsplit

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

EVERY_PROJECT = "*"
_ANY_FOLDERS = "**"
T = TypeVar("T")


class SettingsError(ValueError):
    """The environment's settings cannot be used; the message names each and its remedy."""


@dataclass(frozen=True)
class SourcesMap:
    """A declared map: names of files, folders or patterns, each with its projects. An entry can
    only narrow: where several name a file, all have to admit."""

    declared: dict[str, list[str]]

    def admits(self, project: str, path: PurePosixPath) -> bool:
        """Whether a project may read a path relative to the sources folder; a file that no entry
        names is closed to all."""
        naming = [
            projects
            for name, projects in self.declared.items()
            if _names(PurePosixPath(name).parts, path.parts)
        ]
        return bool(naming) and all({EVERY_PROJECT, project} & set(one) for one in naming)


def _names(pattern: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    """Whether a pattern matches a path or a folder that it is in; `**` is any folders, or none."""
    if not pattern:
        return True
    if pattern[0] == _ANY_FOLDERS and _names(pattern[1:], parts):
        return True
    if not parts or not fnmatchcase(parts[0], pattern[0]):
        return False
    return _names(pattern if pattern[0] == _ANY_FOLDERS else pattern[1:], parts[1:])


def _named_below(name: str) -> str:
    parts = name.removesuffix("/").split("/")
    odd = any(_ANY_FOLDERS in part and part != _ANY_FOLDERS for part in parts)
    if odd or {"", ".", ".."} & set(parts) or name.startswith("~") or "\\" in name:
        raise ValueError(
            "must be a path relative to the sources folder, with `/` between its parts, without `.`"
            " or `..`, and with `**` as a part by itself"
        )
    return name


_Below = Annotated[str, AfterValidator(_named_below)]
_Project = Annotated[str, Field(pattern=r"\S")]
_SOURCES: TypeAdapter[dict[str, list[str]]] = TypeAdapter(dict[_Below, list[_Project]])


def read_sources_map(path: Path) -> SourcesMap:
    """The map in a file. Raises SettingsError naming the entry at fault."""
    form = "PATH: [PROJECT, ...]"
    return SourcesMap(read_map(path, _SOURCES, setting="FEDAUDIT_SOURCES_MAP", form=form))


def read_map(path: Path, form_of: TypeAdapter[T], *, setting: str, form: str) -> T:
    """What a YAML or JSON file of a setting holds. Raises SettingsError naming the field at fault;
    `form`: how a line is written."""
    # Imported here because most processes read no map.
    from fedaudit.spec.errors import InvalidInputError
    from fedaudit.spec.parse import decode_text

    try:
        return form_of.validate_python(decode_text(path.read_text("utf-8")), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "/".join(map(str, ("", *first["loc"])))
        fault = f"{place}: {first['msg'].removeprefix('Value error, ')}; write {form}"
    except InvalidInputError as error:
        fault = "; ".join(one.message for one in error.errors)
    except (OSError, ValueError) as error:
        fault = " ".join(str(error).split())[:300]
    raise SettingsError(f"{setting}: {path}: {fault}")


def default_data_dir() -> Path:
    """Where the embedded mode keeps everything, by the XDG base directory specification."""
    home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(home).expanduser() / "fedaudit"


_TOKEN_CHARACTERS = 16
_STORAGE_PACKAGES = {"s3": ("s3fs", "s3"), "gs": ("gcsfs", "gcs")}
"""What a kind of storage needs beside the service itself: the package, and the extra with it."""


def check_storage_url(url: str) -> None:
    """Raises SettingsError for a URL that names no storage, or one whose package is missing."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc or not parts.path.strip("/"):
            raise SettingsError("FEDAUDIT_STORAGE_URL must name a folder, as file:///srv/fedaudit")
        return
    if parts.scheme not in _STORAGE_PACKAGES or not parts.netloc:
        raise SettingsError(
            "FEDAUDIT_STORAGE_URL must be file:///FOLDER, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX"
        )
    package, extra = _STORAGE_PACKAGES[parts.scheme]
    if find_spec(package) is None:
        raise SettingsError(
            f"FEDAUDIT_STORAGE_URL is {parts.scheme}://, which needs the package {package}; "
            f"install fedaudit's own wheel with its extra {extra}"
        )


_SECURE = re.compile(r"https://.+|http://(localhost|127\.0\.0\.1)(:\d+)?(/.*)?")
_NEEDED = (
    ("oidc_client_id", "oidc_issuer"),
    ("oidc_audience", "oidc_issuer"),
    ("oidc_issuer", "oidc_client_id"),
    ("oidc_issuer", "groups_map"),
    ("proxy_user_header", "groups_map"),
    ("proxy_user_header", "proxy_groups_header"),
    ("proxy_user_header", "proxy_addresses"),
)
"""Settings of other ways to sign in, each with one that it needs."""


def parts_of(text: str) -> list[str]:
    """The parts between commas, without those that are empty."""
    return [part for one in text.split(",") if (part := one.strip())]


def _networks(text: str) -> str:
    for one in parts_of(text):
        ip_network(one)
    return text


_Networks = Annotated[str, AfterValidator(_networks)]


class Settings(BaseSettings):
    """Raises pydantic.ValidationError naming the setting and the remedy."""

    model_config = SettingsConfigDict(
        env_prefix="FEDAUDIT_", env_ignore_empty=True, extra="ignore", frozen=True
    )

    data_dir: Path = Field(default_factory=default_data_dir)
    sources_dir: Path | None = None
    """The folder below which specs may name files; null refuses every file source."""
    sources_map: Path | None = None
    """The file that says which projects may read which files below the sources folder; null opens
    all of them to every project."""
    database_url: Annotated[str, Field(pattern=r"^(sqlite|postgresql(\+psycopg)?)://")] = ""
    broker_url: Annotated[str, Field(pattern="^(filesystem|rediss?)://")] = ""
    storage_url: str = ""
    """Where uploaded files are kept: file:///FOLDER, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX."""
    signing_key_file: Path | None = None
    secrets_key_file: Path | None = None
    """Encrypts the stored secrets of webhooks; the embedded service makes one."""
    webhooks_allow_private: bool = False
    """Whether webhooks may be sent to private networks and to this machine."""
    embedded: bool = False
    """Whether database and broker live below `data_dir`; decided here, never set."""

    lease_seconds: Annotated[float, Field(gt=0, le=3600)] = 30.0
    """How long a worker's claim on a unit lasts without renewal: about the same for all workers and
    sweepers."""
    sweep_seconds: Annotated[float, Field(gt=0, le=600)] = 2.0
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 3
    """How often a unit is tried before it fails."""
    stack_cells: Annotated[int, Field(ge=1, le=1000)] = 32
    """Experiments of one shape that a worker claims and trains together; 1 takes each alone."""
    max_body_bytes: Annotated[int, Field(ge=1024)] = 1 << 20
    """Size of a request that is no upload."""
    max_upload_bytes: Annotated[int, Field(ge=1024)] = 16 << 30
    """Size of an uploaded file, both as it is sent and after decompression."""
    max_connections: Annotated[int, Field(ge=1)] = 1000
    """Connections of one API process; fewer where it may not open so many files."""
    load_threads: Annotated[int, Field(ge=1, le=64)] = 3
    """Specs whose data one API process loads at a time; a project has one of them."""
    max_model_bytes: Annotated[int, Field(ge=1)] = 4 << 30
    """Size of a spec's hypotheses together, in 32-bit numbers."""
    max_artifact_bytes: Annotated[int, Field(ge=1024)] = 64 << 20
    """Size of an uploaded file of parameters, which is held in memory."""
    max_data_memory_bytes: Annotated[int, Field(ge=1)] = 4 << 30
    """That the data of one run may take, by an estimate from its rows, features and attributes."""
    max_planned_records: Annotated[int, Field(ge=1)] = 1_000_000
    """Records of a `record-personalised` spec, each of which is planned by itself."""
    min_group_size: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """No submission or profile may set its minimum group size below this."""
    min_group_clients: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """No submission or profile may set its minimum of clients in a group below this."""
    keep_results_days: Annotated[int | None, Field(ge=1, le=36500)] = None
    """How long a run's trained model and record table are kept after its end; null for ever."""
    keep_checkpoints_days: Annotated[int, Field(ge=0, le=36500)] = 7
    """How long checkpoints are kept if a run ended without its worker; others go at the end."""
    keep_deliveries_days: Annotated[int, Field(ge=7, le=36500)] = 30
    """How long deliveries of webhooks are kept, whether they succeeded or not."""
    keep_idempotency_days: Annotated[int, Field(ge=1, le=36500)] = 30
    """How long a request that is repeated under its Idempotency-Key has its first answer."""
    quota_running: Annotated[int | None, Field(ge=1)] = None
    """Experiments of one project that are queued or have not ended; null sets no bound."""
    quota_stored_bytes: Annotated[int | None, Field(ge=1)] = None
    """Size of the uploaded files that one project keeps together."""
    quota_requests_per_minute: Annotated[int | None, Field(ge=1)] = None
    """Requests of one project's keys together, counted by all API processes."""
    log_format: Literal["text", "json"] = "text"
    metrics_token_file: Path | None = None
    """The file with the token that a scraper of `/metrics` sends, beside keys with the scope
    `metrics:read`: it works also while the database is away."""
    trusted_proxies: _Networks = ""
    """Comma-separated addresses and networks of proxies whose X-Forwarded-* are believed. By
    default none: any local process could choose its address."""
    groups_map: Path | None = None
    """The file that says what groups may do in which projects, for people who sign in elsewhere."""
    oidc_issuer: str = ""
    """The OpenID provider by which people sign in, as it calls itself."""
    oidc_client_id: str = ""
    """Name under which the pages are registered there."""
    oidc_client_secret_file: Path | None = None
    """The file with the client's secret; none for a public client."""
    oidc_audience: str = ""
    """The audience (`aud`) of tokens that `/v1` takes; without it `/v1` takes API keys alone."""
    oidc_groups_claim: str = "groups"
    oidc_scopes: str = "openid profile email"
    """What the pages ask the provider for; some give groups by a scope only."""
    proxy_user_header: str = ""
    """Header in which a proxy that signs people in names them by what never changes."""
    proxy_groups_header: str = ""
    """Header in which it names their groups, separated by commas."""
    proxy_name_header: str = ""
    proxy_addresses: _Networks = ""
    """Comma-separated addresses and networks: whatever connects from one is whom these headers say.
    Not those of FEDAUDIT_TRUSTED_PROXIES."""

    @model_validator(mode="before")
    @classmethod
    def _choose_mode(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        database, broker = values.get("database_url"), values.get("broker_url")
        if bool(database) != bool(broker):
            given, missing = ("database", "broker") if database else ("broker", "database")
            raise ValueError(
                f"FEDAUDIT_{given.upper()}_URL is set and FEDAUDIT_{missing.upper()}_URL is not; "
                "set both, or neither for the embedded mode"
            )
        folder = Path(values.get("data_dir") or default_data_dir()).expanduser().absolute()
        chosen = {**values, "data_dir": folder, "embedded": not database}
        if not database:
            chosen["database_url"] = f"sqlite:///{folder}/fedaudit.db"
            chosen["broker_url"] = f"filesystem://{folder}/queue"
        chosen["storage_url"] = values.get("storage_url") or f"file://{quote(str(folder))}/files"
        return chosen

    @property
    def scratch_dir(self) -> Path:
        """Where large data are laid out while they are used."""
        return self.data_dir / "maps"

    def oidc_client_secret(self) -> str | None:
        """What the file holds at this moment; None for a public client. Raises SettingsError."""
        return _secret_in(self.oidc_client_secret_file, "FEDAUDIT_OIDC_CLIENT_SECRET_FILE")

    def metrics_token(self) -> str | None:
        """What the file holds at this moment, so that it can be exchanged; None where none is
        named. Raises SettingsError for a file that cannot be read or a token easily guessed."""
        token = _secret_in(self.metrics_token_file, "FEDAUDIT_METRICS_TOKEN_FILE")
        if token is not None and len(token) < _TOKEN_CHARACTERS:
            raise SettingsError(
                f"FEDAUDIT_METRICS_TOKEN_FILE: the token has fewer than {_TOKEN_CHARACTERS} "
                "characters; make one with `openssl rand -hex 32`"
            )
        return token

    @cached_property
    def source_rights(self) -> SourcesMap | None:
        """The declared map when these settings were made; None if none is named. Raises
        SettingsError."""
        return None if self.sources_map is None else read_sources_map(self.sources_map)

    @model_validator(mode="after")
    def _usable(self) -> Self:
        _ = self.source_rights
        self.metrics_token()
        for name, needed in _NEEDED:
            if getattr(self, name) and not getattr(self, needed):
                raise ValueError(f"FEDAUDIT_{name.upper()} needs FEDAUDIT_{needed.upper()} as well")
        if self.oidc_issuer and not _SECURE.fullmatch(self.oidc_issuer):
            raise ValueError(
                "FEDAUDIT_OIDC_ISSUER must begin with https:// (http:// on this machine alone): "
                "else the network could sign anyone in"
            )
        check_storage_url(self.storage_url)
        return self


def _secret_in(path: Path | None, name: str) -> str | None:
    """What a file holds, without space around it. Raises SettingsError naming the setting."""
    if path is None:
        return None
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{name}: {path} cannot be read ({type(error).__name__})") from None


_READ_ELSEWHERE = frozenset({"URL", "API_KEY", "PROJECT", "NATIVE", "WORKER_THREADS"})
"""Variables of clients, of compiled code and of the worker, none of them a field of Settings."""


def unread_variables() -> list[str]:
    """Variables that begin as settings do and that nothing reads: misspelt, or of an earlier
    version."""
    known = _READ_ELSEWHERE | {name.upper() for name in Settings.model_fields} - {"EMBEDDED"}
    names = (name for name in os.environ if name.startswith("FEDAUDIT_"))
    return sorted(name for name in names if name.removeprefix("FEDAUDIT_") not in known)


def load_settings() -> Settings:
    """The settings in the environment. Raises SettingsError with a message for people."""
    try:
        return Settings()
    except ValidationError as error:
        faults = []
        for detail in error.errors(include_url=False):
            field = "_".join(str(part) for part in detail["loc"]).upper()
            name = f"FEDAUDIT_{field}: " if field else ""
            faults.append(name + detail["msg"].removeprefix("Value error, "))
        raise SettingsError("; ".join(faults)) from None
