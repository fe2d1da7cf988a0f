"""Figures that the papers print, by what a sweep varies; their Figures 1 to 8 are pictures."""

from collections.abc import Mapping

# Galli et al., ICISSP 2023, Table 1: median and maximum over clients, averaged over 10 runs; by
# noise multiplier, for 7, 5, 3 and 1 hypotheses.
HOSPITAL_LEAKAGE: Mapping[float, tuple[tuple[float, float], ...]] = {
    0.1: ((517.0, 1551.0), (418.0, 1342.0), (473.0, 1386.0), (528.0, 1540.0)),
    1: ((36.3, 126.5), (40.7, 127.6), (44.0, 138.6), (49.5, 147.4)),
    2: ((15.4, 57.8), (14.3, 54.5), (22.0, 69.3), (21.5, 66.6)),
    3: ((7.7, 32.3), (8.4, 36.7), (12.5, 40.0), (12.1, 40.0)),
    5: ((5.7, 21.3), (5.9, 22.0), (5.5, 21.6), (5.3, 20.9)),
}

# Galli et al., long version, Table 2: mean accuracy on FEMNIST over three runs, by noise
# multiplier, with cross-entropy and with RMSE.
FEMNIST_ACCURACY: Mapping[float, tuple[float, float]] = {
    0: (0.832, 0.801),
    0.001: (0.843, 0.813),
    0.01: (0.832, 0.805),
    0.1: (0.834, 0.808),
    1: (0.834, 0.814),
    3: (0.835, 0.825),
    5: (0.812, 0.787),
    10: (0.692, 0.687),
    15: (0.561, 0.622),
}

# Liu et al., CCS 2024: test accuracy, mean of the last three rounds and of five seeds, on heart
# disease, MNIST dealt evenly, and MNIST by shards. By baseline, None for rPDP-FL, and distribution.
RECORD_ACCURACY: Mapping[tuple[str | None, str], tuple[float, float, float]] = {
    ("privacy-free", "three-levels"): (0.750, 0.980, 0.959),
    (None, "three-levels"): (0.730, 0.869, 0.690),
    ("strong-for-all", "three-levels"): (0.671, 0.518, 0.421),
    ("dropout", "three-levels"): (0.707, 0.740, 0.553),
    (None, "bounded-pareto"): (0.731, 0.851, 0.655),
    ("strong-for-all", "bounded-pareto"): (0.673, 0.523, 0.421),
    ("dropout", "bounded-pareto"): (0.607, 0.431, 0.475),
    (None, "bounded-mix-gauss"): (0.732, 0.868, 0.686),
    ("strong-for-all", "bounded-mix-gauss"): (0.684, 0.491, 0.369),
    ("dropout", "bounded-mix-gauss"): (0.684, 0.727, 0.581),
}

# The slides on Liu et al., second table: accuracy by clipping threshold, for epsilon 0.05 to 22.4.
CLIP_ACCURACY: Mapping[float, tuple[float, ...]] = {
    1: (0.749, 0.825, 0.849, 0.829, 0.847, 0.833, 0.848, 0.833, 0.841, 0.843),
    2: (0.719, 0.856, 0.861, 0.867, 0.888, 0.891, 0.874, 0.883, 0.885, 0.883),
    3: (0.538, 0.853, 0.888, 0.864, 0.893, 0.890, 0.884, 0.882, 0.883, 0.877),
    4: (0.377, 0.799, 0.873, 0.877, 0.890, 0.886, 0.897, 0.890, 0.895, 0.891),
    5: (0.158, 0.779, 0.864, 0.890, 0.891, 0.884, 0.890, 0.894, 0.894, 0.890),
    7.5: (0.109, 0.242, 0.853, 0.867, 0.893, 0.876, 0.897, 0.888, 0.885, 0.897),
    10: (0.121, 0.122, 0.784, 0.865, 0.885, 0.896, 0.898, 0.890, 0.884, 0.891),
    15: (0.119, 0.111, 0.406, 0.866, 0.878, 0.882, 0.881, 0.878, 0.893, 0.887),
    20: (0.118, 0.096, 0.098, 0.803, 0.875, 0.884, 0.892, 0.883, 0.893, 0.891),
    25: (0.117, 0.104, 0.112, 0.675, 0.864, 0.882, 0.897, 0.891, 0.885, 0.892),
}
