"""What hypothesis membership says in plain language."""

from fedaudit.reports.sections.attacks import ClusterMembershipResult
from fedaudit.spec.experiment import ExperimentSpec

CAPABILITIES = [
    "Is the server: has the hypotheses that it sent out, and each client's upload with its noise.",
    "Has one upload of each client; several of one client, or earlier rounds, would tell more.",
    "Names the hypothesis nearest to the upload, or that of the cluster that k-means puts it into.",
]


def statement(
    spec: ExperimentSpec,
    results: list[ClusterMembershipResult],
    *,
    own: float,
    chance: float | None,
    clients: int,
) -> str:
    """What was tried, what came of it and what that does not show."""
    sentences = [
        f"{clients} training clients uploaded once more from the trained hypotheses, in a round "
        "beside the run, and the server named the hypothesis that each had started from."
    ]
    for result in results:
        named = result.nearest
        if named.value is not None and named.interval is not None:
            whose = ", the run's own" if result.noise_multiplier == own else ""
            sentences.append(
                f"At nu = {result.noise_multiplier:g}{whose}, it was right for {named.value:.1%} "
                f"({named.interval.low:.1%} to {named.interval.high:.1%})."
            )
    sentences.append(
        "How often naming the most frequent hypothesis every time is right is suppressed, since "
        "few clients chose otherwise."
        if chance is None
        else f"Naming the most frequent hypothesis every time is right for {chance:.1%}."
    )
    sentences += [
        "The choice of a hypothesis has no noise of its own; the exponent beside each figure "
        "bounds how much likelier an upload can be under one of the two nearest hypotheses than "
        "under the other, for the same update.",
        "A server that knows more of its clients may do better, so a figure near chance is no "
        "guarantee.",
        "The round used the spec's mechanism and code with noise of its own, never that which the "
        "run drew; it moved no figure of the run and was charged to no budget.",
    ]
    if spec.privacy.noise == "release":
        sentences.append(
            "These figures follow from the clients' choices, and no guarantee covers them: keep "
            "them confidential."
        )
    return " ".join(sentences)
