"""Where the confidential files of attacks are written."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedaudit.attacks.attack import AttackOutcome


ATTACKS = "attacks.json"
"""The sections of all attacks, beside their files."""


def write_attack_file(folder: Path, position: int, name: str, data: bytes) -> str:
    """Writes one below `attacks/POSITION`; returns its path below the folder."""
    path = folder / "attacks" / str(position) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path.relative_to(folder))


def write_attack_files(outcomes: "Sequence[AttackOutcome]", folder: Path) -> list[str]:
    """Writes them below `attacks/POSITION`; returns their paths below the folder."""
    return [
        write_attack_file(folder, position, name, data)
        for position, outcome in enumerate(outcomes)
        for name, data in outcome.files.items()
    ]
