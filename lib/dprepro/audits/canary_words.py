"""What an audit by canaries says in words: the bound, what it says of a claim, and whether a sign is wrong."""

import numpy as np

from dprepro.base.check import in_interval


def checked_claim(claimed: float | None) -> float | None:
    """Return the claimed epsilon, if any; ValueError unless it is in [0, inf]."""
    return None if claimed is None else float(in_interval("claimed", claimed, 0, np.inf))


def verdict_lines(
    epsilon_low: float, ceiling: float, delta: float, alpha: float, claimed: float | None
) -> list[str]:
    """Return what a bound says, and what it says of a claim, in words."""
    lines = [
        f"epsilon is at least {epsilon_low:.3f} at delta = {delta:g}, with {1 - alpha:.4g} confidence; an attack "
        f"without an error would have shown {ceiling:.3f} with as many trials."
    ]
    if claimed is None:
        return lines
    if epsilon_low > claimed:
        lines.append(f"VIOLATION: the claim of epsilon = {claimed:g} is contradicted at this confidence.")
    else:
        lines.append(f"The claim of epsilon = {claimed:.4g} is not contradicted.")
        if ceiling <= claimed:
            lines.append(
                "It could not have been: with so few trials even an attack without an error shows no more."
            )
    return lines


def sign_line(area: float, inside: int, outside: int) -> list[str]:
    """Return a hint, in a list, if "in" scores lie so far below "out" scores that chance is no explanation."""
    spread = np.sqrt(
        (inside + outside + 1) / (12 * inside * outside)
    )  # of the Mann-Whitney statistic under chance
    if area > 0.5 - 4 * spread:
        return []
    return [
        f"Scores are lower with the canary than without it (AUC {area:.3f}): is the sign right? "
        "The score is minus the loss."
    ]
