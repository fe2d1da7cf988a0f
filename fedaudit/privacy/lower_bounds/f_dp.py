"""The one-run bound against a whole privacy curve: Mahloujifar, Melis and Chaudhuri ("Auditing
f-differential privacy in one run", 2024).

Let p_j be the chance of exactly j correct guesses among r of m canaries, right(c) the sum of
(j / m) p_j over j >= c, and wrong(c) that of ((r - j) / m) p_j: the chance that a canary drawn at
random is guessed rightly (wrongly) and at least c guesses are right. Turning the coin of that
canary over turns "right, at least c" into "wrong, at least c - 1", so the curve f binds the two:
wrong(c - 1) >= f(right(c)), f being the least chance of a false alarm of a test of that power. And
right(c - 1) - right(c) is the (c - 1) / (r - c + 1)-fold of wrong(c - 1) - wrong(c). If, on the way
down from v to 0, what makes v or more correct guesses as likely as the significance comes to more
than the r / m that there is, then so many refute the curve.
"""

from collections.abc import Callable

from fedaudit.privacy.lower_bounds.release_law import Curve


def refutes(
    curve: Curve, *, canaries: int, guesses: int, correct: int, significance: float
) -> bool:
    """Whether so many correct guesses have a chance below `significance` under the curve."""
    if not 0 <= correct <= guesses <= canaries:
        raise ValueError("correct guesses are among the guesses, and these among the canaries")
    if not correct:
        return False
    most = guesses / canaries
    right = significance * correct / canaries
    wrong = significance * (guesses - correct) / canaries
    for count in range(correct - 1, -1, -1):
        before = wrong
        wrong = max(wrong, curve(right))
        right += count / (guesses - count) * (wrong - before)
        if right + wrong > most:
            return True
    return False


def fewest_correct(refuted: Callable[[int], bool], *, guesses: int) -> int | None:
    """The fewest correct guesses that are `refuted`; None where not even all are."""
    if not guesses or not refuted(guesses):
        return None
    low, high = 0, guesses
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if refuted(middle) else (middle, high)
    return high
