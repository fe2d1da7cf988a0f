-- The names are made binary once for each packed row (OFFSET keeps the planner from moving that
-- inwards): looking into their text would parse all of them for each subject. The radii of
-- components are found by their place: copied out of the table once for each row, not once for each
-- line. The last OFFSET makes a line hold its radius when lines are sorted, not its row's radii.
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
