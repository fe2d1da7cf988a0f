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
