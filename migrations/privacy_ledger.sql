-- Below the bounds Postgres might answer a division with an error, which would fail every line.
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
FROM (
{unpacked}) AS u
