"""The view `privacy_ledger` since revision 0005: with epsilons that have a delta.

As before the figures are computed as the software computes them, one operation at a time in double
precision. A cumulative epsilon is stored, and only looked up.
"""

# See `privacy_ledger` for why the names are made binary first. A row without epsilons has a null in
# place of their array, which unnest fills up with nulls.
_UNPACKED_POSTGRESQL = """
    SELECT l.*, names.list ->> s.subject AS subject_name, s.subject, s.outcome,
        NULLIF(s.subject_radius, 'NaN') AS subject_radius, s.subject_releases, s.cluster,
        s.subject_epsilon
    FROM ledger AS l
    JOIN experiments ON experiments.id = l.experiment_id
    JOIN subject_sets ON subject_sets.id = experiments.subject_set_id
    CROSS JOIN LATERAL (SELECT CAST(subject_sets.names AS jsonb) AS list OFFSET 0) AS names
    CROSS JOIN LATERAL unnest(l.subjects, l.outcomes, l.radii, l.releases, l.clusters, l.epsilons)
        AS s (subject, outcome, subject_radius, subject_releases, cluster, subject_epsilon)
"""

_UNPACKED_SQLITE = """
    SELECT l.*, subject_sets.names ->> s.value AS subject_name, s.value AS subject,
        l.outcomes ->> s.key AS outcome, l.radii ->> s.key AS subject_radius,
        l.releases ->> s.key AS subject_releases, l.clusters ->> s.key AS cluster,
        l.epsilons ->> s.key AS subject_epsilon
    FROM ledger AS l
    JOIN experiments ON experiments.id = l.experiment_id
    JOIN subject_sets ON subject_sets.id = experiments.subject_set_id
    JOIN json_each(l.subjects) AS s
"""

# Below the bounds Postgres might answer a division with an error, which would fail every line.
_VIEW = """
CREATE VIEW privacy_ledger AS
SELECT
    u.experiment_id,
    u.project_id,
    u.round,
    u.release,
    u.subject_kind,
    u.subject_name AS subject,
    u.subject AS subject_index,
    u.observer,
    'all' AS component,
    CASE u.outcome WHEN 0 THEN 'released' WHEN 1 THEN 'refused' ELSE 'withheld' END AS outcome,
    CASE WHEN u.delta IS NOT NULL THEN u.subject_epsilon
        WHEN u.noise_multiplier >= 1e-140 AND u.subject_radius >= 1e-140
        THEN CAST(u.n AS double precision) / (u.noise_multiplier * u.subject_radius)
    END AS epsilon,
    u.delta,
    u.adjacency,
    u.subject_radius AS radius,
    CASE WHEN u.outcome = 0 AND u.delta IS NULL AND u.noise_multiplier >= 1e-140
        THEN CAST(u.n AS double precision) / u.noise_multiplier
    END AS leakage,
    CASE WHEN u.delta IS NULL AND u.noise_multiplier >= 1e-140
        THEN CAST(u.subject_releases * u.n AS double precision) / u.noise_multiplier
    END AS leakage_total,
    u.guarantee,
    NULLIF(u.cluster, -1) AS cluster
FROM ({unpacked}) AS u
"""


def create_view(dialect: str) -> str:
    """The statement that makes the view on `sqlite` or `postgresql`."""
    unpacked = {"sqlite": _UNPACKED_SQLITE, "postgresql": _UNPACKED_POSTGRESQL}[dialect]
    return _VIEW.format(unpacked=unpacked)
