"""Writes clinics.csv: 8,000 made-up patients of 250 clinics, and whether they got well.

    python examples/clinics.py

No patient and no clinic exists. Whether somebody gets well follows from age, blood pressure, days
waited and earlier stays by one rule for everybody, with chance; sexes differ a little in what they
bring with them, and not in the rule.
"""

from pathlib import Path

import numpy as np

CLINICS, PATIENTS = 250, 32
COLUMNS = ("clinic", "sex", "age", "pressure", "waited", "stays", "treatment", "recovered")
TREATMENTS = ("tablets", "surgery", "therapy")


def patients(seed: int = 1) -> list[tuple[object, ...]]:
    """One row for each patient, clinic after clinic."""
    draw = np.random.default_rng(seed)
    rows: list[tuple[object, ...]] = []
    for clinic in range(1, CLINICS + 1):
        older = draw.normal(0, 4)
        for _ in range(PATIENTS):
            sex = "F" if draw.random() < 0.52 else "M"
            age = int(np.clip(draw.normal(56 + older + (sex == "F"), 15), 18, 95))
            pressure = int(np.clip(draw.normal(128 + 0.3 * (age - 56), 16), 80, 220))
            waited = int(np.clip(draw.exponential(18), 0, 120))
            stays = int(np.clip(draw.poisson(1.2), 0, 12))
            treatment = TREATMENTS[int(draw.integers(len(TREATMENTS)))]
            helped = {"tablets": 0.0, "surgery": 0.8, "therapy": 0.4}[treatment]
            score = (
                -0.3
                + helped
                - 0.055 * (age - 56)
                - 0.03 * (pressure - 128)
                - 0.03 * (waited - 18)
                - 0.45 * (stays - 1.2)
            )
            recovered = int(draw.random() < 1 / (1 + np.exp(-score)))
            rows.append(
                (f"clinic-{clinic}", sex, age, pressure, waited, stays, treatment, recovered)
            )
    return rows


if __name__ == "__main__":
    lines = [",".join(COLUMNS), *(",".join(map(str, row)) for row in patients())]
    Path(__file__).with_name("clinics.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
