"""The view `privacy_ledger`: the packed ledger, one row for each subject and component.

The figures are computed in the order in which the software computes them, one operation at a time
in double precision, so that they agree to the last bit. A ledger row without components has one,
`all`, with every parameter. An entry against readers of the report has one subject, which is none
of the run's and stands for everyone held out of training: its name follows from its kind.
"""

# The names are made binary once for each packed row (OFFSET keeps the planner from moving that
# inwards): looking into their text would parse all of them for each subject. The radii of
# components are found by their place: copied out of the table once for each row, not once for each
# line. The last OFFSET makes a line hold its radius when lines are sorted, not its row's radii.
_UNPACKED_POSTGRESQL = """
    SELECT l.*, once.names ->> s.subject AS subject_name, s.subject, s.outcome,
        COALESCE(part.name, 'all') AS component, COALESCE(part.n, l.n) AS component_n,
        NULLIF(own.radius, 'NaN') AS subject_radius, s.subject_releases, s.cluster,
        s.subject_epsilon
    FROM ledger AS l
    JOIN experiments ON experiments.id = l.experiment_id
    JOIN subject_sets ON subject_sets.id = experiments.subject_set_id
    CROSS JOIN LATERAL (
        SELECT CAST(subject_sets.names AS jsonb) AS names,
            CASE WHEN l.components IS NOT NULL THEN l.radii || CAST('{}' AS double precision[]) END
                AS radii
        OFFSET 0
    ) AS once
    LEFT JOIN LATERAL (
        SELECT found.value ->> 'name' AS name, CAST(found.value ->> 'n' AS bigint) AS n, found.place
        FROM json_array_elements(l.components) WITH ORDINALITY AS found (value, place)
    ) AS part ON TRUE
    CROSS JOIN LATERAL unnest(
        l.subjects, l.outcomes, CASE WHEN l.components IS NULL THEN l.radii END, l.releases,
        l.clusters, l.epsilons
    ) WITH ORDINALITY AS s (
        subject, outcome, radius, subject_releases, cluster, subject_epsilon, place
    )
    CROSS JOIN LATERAL (
        SELECT CASE WHEN l.components IS NULL THEN s.radius
            ELSE once.radii[(s.place - 1) * json_array_length(l.components) + part.place] END
            AS radius
        OFFSET 0
    ) AS own
"""

_UNPACKED_SQLITE = """
    SELECT l.*, subject_sets.names ->> s.value AS subject_name, s.value AS subject,
        COALESCE(part.value ->> 'name', 'all') AS component,
        COALESCE(part.value ->> 'n', l.n) AS component_n,
        l.outcomes ->> s.key AS outcome,
        l.radii ->> CASE WHEN l.components IS NULL THEN s.key
            ELSE s.key * json_array_length(l.components) + part.key END AS subject_radius,
        l.releases ->> s.key AS subject_releases, l.clusters ->> s.key AS cluster,
        l.epsilons ->> s.key AS subject_epsilon
    FROM ledger AS l
    JOIN experiments ON experiments.id = l.experiment_id
    JOIN subject_sets ON subject_sets.id = experiments.subject_set_id
    JOIN json_each(COALESCE(l.components, '[null]')) AS part
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
    CASE u.subject_kind WHEN 'validation_client' THEN 'every validation client'
        WHEN 'validation_record' THEN 'every held-out record' ELSE u.subject_name END AS subject,
    CASE WHEN u.subject_kind IN ('validation_client', 'validation_record') THEN NULL
        ELSE u.subject END AS subject_index,
    u.observer,
    u.component,
    CASE u.outcome WHEN 0 THEN 'released' WHEN 1 THEN 'refused' ELSE 'withheld' END AS outcome,
    CASE WHEN u.delta IS NOT NULL THEN u.subject_epsilon
        WHEN u.noise_multiplier >= 1e-140 AND u.subject_radius >= 1e-140
        THEN CAST(u.component_n AS double precision) / (u.noise_multiplier * u.subject_radius)
    END AS epsilon,
    u.delta,
    u.adjacency,
    u.subject_radius AS radius,
    CASE WHEN u.outcome = 0 AND u.delta IS NULL AND u.noise_multiplier >= 1e-140
        THEN CAST(u.component_n AS double precision) / u.noise_multiplier
    END AS leakage,
    CASE WHEN u.delta IS NULL AND u.noise_multiplier >= 1e-140
        THEN CAST(u.subject_releases * u.component_n AS double precision) / u.noise_multiplier
    END AS leakage_total,
    u.guarantee,
    NULLIF(u.cluster, -1) AS cluster
FROM ({unpacked}) AS u
"""


def create_view(dialect: str) -> str:
    """The statement that makes the view on `sqlite` or `postgresql`."""
    unpacked = {"sqlite": _UNPACKED_SQLITE, "postgresql": _UNPACKED_POSTGRESQL}[dialect]
    return _VIEW.format(unpacked=unpacked)
