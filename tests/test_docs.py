"""The documentation: its links lead somewhere, it stays short, its commands exist."""

import ast
import json
import re
import shlex
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
import yaml
from typer.testing import CliRunner

from benchmarks.reproductions.kept_sweeps import KEPT
from benchmarks.reproductions.side_by_side import PAGE, SUMMARIES
from docs.reference import PAGES, commands
from fedaudit.cli.main import app
from fedaudit.privacy.mechanisms.registry import MECHANISMS
from fedaudit.spec.attacks import AttackKind
from fedaudit.spec.declared_ledgers import LedgerTerms
from fedaudit.spec.gates import PLAIN_FIGURES
from fedaudit.spec.metrics import FAMILIES, RATES
from tests.house import ROOT

DOCS = ROOT / "docs"
WRITTEN = sorted(DOCS.rglob("*.md"))
README = ROOT / "README.md"
ALL = [README, ROOT / "clients/python/README.md", *WRITTEN]
NAVIGATION = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]
NEWCOMERS = [DOCS / path for path in NAVIGATION[1]["The path of a newcomer"]]
_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def test_it_stays_short() -> None:
    words = {path: len(path.read_text("utf-8").split()) for path in WRITTEN}
    assert sum(words.values()) <= 45_000
    assert sum(words[path] for path in NEWCOMERS) <= 12_000
    assert len(README.read_text("utf-8").splitlines()) <= 130


def test_the_site_has_every_page() -> None:
    listed = set(re.findall(r"[\w/-]+\.md", json.dumps(NAVIGATION)))
    assert listed == {*PAGES, *(str(path.relative_to(DOCS)) for path in WRITTEN)}


@pytest.mark.parametrize("path", ALL, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(path: Path) -> None:
    text = _BLOCK.sub("", path.read_text("utf-8"))
    for link in _LINK.findall(text):
        if "://" not in link:
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            if target.is_relative_to(DOCS) and str(target.relative_to(DOCS)) in PAGES:
                assert not anchor, link
                continue
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


def test_files_that_are_named_exist() -> None:
    known = {path.name for path in (ROOT / "fedaudit").rglob("*.py")}
    for path in ALL:
        for name in re.findall(r"`(\w+\.py)`", path.read_text("utf-8")):
            assert name in known, (path, name)


@pytest.mark.parametrize("page", PAGES)
def test_the_reference_is_made_of_what_there_is(page: str) -> None:
    assert len("\n".join(PAGES[page]()).splitlines()) > 20


@pytest.mark.parametrize("path", ALL, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_have_these_options(path: Path) -> None:
    """Each command line of a block is one of the real ones, with options that it has."""
    for words in command_lines(path):
        name, options = longest_command(words)
        for word in words[len(name.split()) :]:
            if word.startswith("--"):
                assert word.partition("=")[0] in options, (name, word)


@pytest.mark.parametrize("path", [README, *NEWCOMERS], ids=lambda path: path.stem)
def test_cheap_commands_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Audits and proposals of the examples need neither a service nor a training."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    for words in command_lines(path):
        if words[1:3] == ["federations", "scaffold"] or words[1] == "audit":
            place = Path(words[3] if words[2] == "scaffold" else words[2])
            done = CliRunner().invoke(app, words[1:]) if place.exists() else None
            assert done is None or done.exit_code == 0, (words, done)


def test_the_terms_of_the_manual_are_terms() -> None:
    [terms] = re.findall(r"```yaml\n(name: .*?)```", (DOCS / "ledgers.md").read_text(), re.DOTALL)
    assert LedgerTerms.model_validate(yaml.safe_load(terms)).population == 1000


NAMED: dict[str, Iterable[str]] = {
    "attacks.md": get_args(AttackKind),
    "fairness.md": [*RATES, *(f"{family.name}_" for family in FAMILIES)],
    "gates.md": PLAIN_FIGURES,
    "guarantees.md": [mechanism.facts.name for mechanism in MECHANISMS],
}


@pytest.mark.parametrize("page", NAMED)
def test_a_page_names_all_that_it_is_about(page: str) -> None:
    written = (DOCS / page).read_text("utf-8")
    assert not [name for name in NAMED[page] if f"`{name}`" not in written]


_MARKED = re.compile(r"<!--begin:(\S+)-->\n(.*?)<!--end:\1-->", re.DOTALL)


@pytest.mark.parametrize(
    "page", ["usefulness.md", "evidence/performance.md", "evidence/income-task.md"]
)
def test_figures_are_written_by_their_command(page: str) -> None:
    parts = _MARKED.split((DOCS / page).read_text("utf-8"))
    assert not any(line.startswith("|") for line in "".join(parts[::3]).splitlines())
    for name in parts[1::3]:
        written = (ROOT / name.replace(".", "/")).with_suffix(".py").read_text("utf-8")
        assert re.search(rf'write(_measured)?\("{name}"', written)


def test_the_reproductions_tables_are_those_of_what_is_kept() -> None:
    written = _MARKED.split((DOCS / PAGE).read_text("utf-8"))
    made = {name: f"{summary(ROOT / KEPT)}\n" for name, summary in SUMMARIES.items()}
    assert dict(zip(written[1::3], written[2::3], strict=True)) == made


@pytest.mark.parametrize("path", ALL, ids=lambda path: str(path.relative_to(ROOT)))
def test_blocks_can_be_read(path: Path) -> None:
    for language, block in _BLOCK.findall(path.read_text("utf-8")):
        if language == "python":
            ast.parse(block)
        elif language == "yaml":
            yaml.safe_load(block)
        elif language == "json":
            json.loads(block)


@pytest.mark.parametrize("path", ALL, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_and_files_that_are_named_exist(path: Path) -> None:
    text = path.read_text("utf-8")
    for module in re.findall(
        r"python (?:-P )?-m ((?:benchmarks|tests|api|workers|migrations)[\w.]*)", text
    ):
        place = ROOT / module.replace(".", "/")
        assert place.is_dir() or place.with_suffix(".py").is_file(), module
    for named in re.findall(
        r"`((?:fedaudit|api|models|tests|examples|deploy)/[a-z_][\w./-]*)", text
    ):
        assert (ROOT / named.rstrip(".")).exists(), named
    for target in re.findall(r"^\s*make ([a-z-]+)", "\n".join(shells(path)), re.MULTILINE):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE), (
            target
        )


@cache
def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and mkdocs make them."""
    headings = _HEADING.findall(_BLOCK.sub("", path.read_text("utf-8")))
    plain = (re.sub(r"[^\w\s-]", "", one.lower()) for one in headings)
    return {re.sub(r"\s", "-", one.strip()) for one in plain}


def shells(path: Path) -> Iterator[str]:
    for language, block in _BLOCK.findall(path.read_text("utf-8")):
        if language in {"sh", ""}:
            yield block.replace("\\\n", " ")


def command_lines(path: Path) -> Iterator[list[str]]:
    """The words of every call of `fedaudit` in the page's shell blocks, without comments."""
    for block in shells(path):
        for line in block.splitlines():
            for part in re.split(r"\||&&|\|\|", line):
                if found := re.match(
                    r"\s*(?:docker compose exec api |kubectl exec \S+ -- )?(fedaudit .*)", part
                ):
                    yield shlex.split(found[1], comments=True)


@cache
def known_commands() -> dict[str, frozenset[str]]:
    return {
        name: frozenset(
            one for option in command.params for one in (*option.opts, *option.secondary_opts)
        )
        for name, command in commands()
    }


def longest_command(words: list[str]) -> tuple[str, frozenset[str]]:
    """The command that these words begin with, and its options."""
    for length in (3, 2):
        if options := known_commands().get(" ".join(words[:length])):
            return " ".join(words[:length]), options
    raise AssertionError(f"there is no command {' '.join(words[:3])}")
