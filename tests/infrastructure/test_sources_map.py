"""The declared map of files to projects: what it opens, and how a faulty one is refused."""

from pathlib import Path, PurePosixPath

import pytest

from infrastructure.settings import (
    Settings,
    SettingsError,
    SourcesMap,
    load_settings,
    read_sources_map,
)

MAP = """\
acme: [acme]
shared/: [acme, beta]
shared/of-beta: [beta]
"public/*.csv": ["*"]
"**/secret*": []
twice: [acme, beta]
twice/: [beta]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "map.yaml"
    path.write_text(text)
    return path


def readers_of(found: SourcesMap | None, path: str) -> str:
    assert found is not None
    place = PurePosixPath(path)
    return " ".join(one for one in ("acme", "beta", "gamma") if found.admits(one, place))


@pytest.mark.parametrize(
    ("path", "readers"),
    [
        ("acme", "acme"),
        ("acme/a.csv", "acme"),
        ("acme/deep/er/a.csv", "acme"),
        ("./acme//a.csv", "acme"),
        ("acme2/a.csv", ""),
        ("ACME/a.csv", ""),
        ("shared/a.csv", "acme beta"),
        # Entries narrow each other, in whatever order they stand.
        ("shared/of-beta/a.csv", "beta"),
        ("twice/a.csv", "beta"),
        ("public/a.csv", "acme beta gamma"),
        ("public/a.parquet", ""),
        ("public/deep/a.csv", ""),
        ("acme/secret.csv", ""),
        ("acme/secrets/a.csv", ""),
        ("secret", ""),
        ("other.csv", ""),
        ("", ""),
    ],
)
def test_a_file_is_open_to_those_whom_every_entry_that_names_it_admits(tmp_path, path, readers):
    assert readers_of(read_sources_map(written(tmp_path, MAP)), path) == readers


def test_everything_can_be_opened_and_parts_kept_back(tmp_path: Path) -> None:
    found = read_sources_map(written(tmp_path, '{"**": ["*"], "acme": ["acme"]}'))
    assert readers_of(found, "a.csv") == readers_of(found, "deep/a.csv") == "acme beta gamma"
    assert readers_of(found, "acme/a.csv") == "acme"
    assert readers_of(read_sources_map(written(tmp_path, "{}")), "a.csv") == ""


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("", "valid dictionary; write PATH"),
        ("- acme", "valid dictionary"),
        ("acme: [acme", "neither YAML nor JSON.*line 1"),
        ("acme: [acme]\nbeta: beta", "/beta: Input should be a valid list"),
        ("acme: [acme]\nbeta:\n  - beta\n  - 3", "/beta/1: Input should be a valid string"),
        ("acme: [' ']", "/acme/0: "),
        ("acme: [acme]\n\nacme: [beta]", "'acme' is given twice"),
        ("2020: [acme]", "/2020"),
        ("/srv/acme: [acme]", "/srv/acme/.*: must be a path relative"),
        *(
            (f"'{path}': [acme]", "must be a path relative")
            for path in ("a/../b", "./a", "a//b", "~/a", "a\\b", "", "a/**b")
        ),
        ("acme: &all [acme]\nbeta: *all", "alias"),
    ],
)
def test_a_faulty_map_is_refused_by_entry(tmp_path: Path, text: str, stated: str) -> None:
    with pytest.raises(SettingsError, match=stated) as caught:
        read_sources_map(written(tmp_path, text))
    assert str(tmp_path / "map.yaml") in str(caught.value)


def test_settings_are_refused_with_a_faulty_map(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDAUDIT_SOURCES_MAP", str(written(tmp_path, "acme: acme")))
    with pytest.raises(SettingsError, match=r"^FEDAUDIT_SOURCES_MAP: .*map\.yaml: /acme"):
        load_settings()
    monkeypatch.setenv("FEDAUDIT_SOURCES_MAP", str(written(tmp_path, "acme: [acme]")))
    assert readers_of(load_settings().source_rights, "acme/a.csv") == "acme"
    assert Settings(sources_map=None).source_rights is None
