"""Where the confidential files of attacks are written."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedaudit.attacks.attack import AttackOutcome


def write_attack_files(outcomes: "Sequence[AttackOutcome]", folder: Path) -> list[str]:
    """Writes them below `attacks/POSITION`; returns their paths below the folder."""
    written = []
    for position, outcome in enumerate(outcomes):
        for name, data in outcome.files.items():
            path = folder / "attacks" / str(position) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            written.append(str(path.relative_to(folder)))
    return written
