"""The flag rule: what no honest entry shows, told beside an entry's rank. It catches clumsy cheating, and no more.

Tasks and their optima are public, so submitted actions may be a blend of a policy and the optimum. A blend with
a share x of the optimum closes about x of the gap everywhere, on the controls too:

- `control`: where each state shows one action, rewards cannot tell what another would have earned. Flagged is
  an entry that closes there `CONTROL_GAP` of the gap or more on average over its seeds, and some of it in each.
- `outside`: outside the cube nothing is known of the optimum, which is its own network's extrapolation. Where
  that network is deep (C >= `DEEP`), flagged is an entry that scores `OUTSIDE_SCORE` or more there.
- `held-out` (verified entries): flagged is one that closes clearly more of the gap on the public tasks than on
  tasks nobody has seen: by `PUBLIC_LEAD` or more at the lower end of the interval.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from smeoffline.bench.leaderboard.place_score import Scores
from smeoffline.data.behavior import can_explore
from smeoffline.data.recipe import Recipe
from smeoffline.score.statistics import Estimate

CONTROL_GAP = 0.1
OUTSIDE_SCORE = 0.99
DEEP = 5  # layers of the optimal policy
PUBLIC_LEAD = 0.05

KINDS = INFORMED, NO_HEADROOM, NO_INFORMATION = "informed", "no headroom", "no information"


def kind(recipe: Recipe) -> str:
    """What a dataset can be used for: to rank, or as which control.

    Returns:
        `no information` where each state shows one action, `no headroom` where the behavior is right on
        average, else `informed`.
    """
    behaviors = [component.behavior for component in recipe.mix]
    if not can_explore(behavior.to_dict() for behavior in behaviors):
        return NO_INFORMATION
    right = all(b.base == "optimal" or (b.base in ("bias", "weights") and b.nu == 0) for b in behaviors)
    return NO_HEADROOM if right else INFORMED


def flags(scores: Scores, recipes: Mapping[str, Recipe]) -> tuple[str, ...]:
    """Why an entry's scores are flagged, one sentence each; empty for one that is not.

    Args:
        scores: Of the entry.
        recipes: By dataset.
    """
    found = []
    for dataset, seeds in scores.items():
        closed = [s.gap_closed for s in seeds if s.gap_closed is not None]
        if kind(recipes[dataset]) == NO_INFORMATION and closed:
            mean = statistics.fmean(closed)
            if mean >= CONTROL_GAP and min(closed) > 0:
                found.append(
                    f"control: closes {mean:.2f} of the gap on {dataset}, where each state shows one action and no "
                    f"reward tells of another; {CONTROL_GAP:g} or more is flagged"
                )
        outside = statistics.fmean(s.score_ood for s in seeds)
        if recipes[dataset].task.complexity >= DEEP and outside >= OUTSIDE_SCORE:
            found.append(
                f"outside: scores {outside:.3f} outside the training distribution of {dataset}, where nothing tells "
                f"what is optimal; {OUTSIDE_SCORE:g} or more is flagged"
            )
    return tuple(found)


def lead_flags(lead: Estimate | None) -> tuple[str, ...]:
    """Why a verified entry is flagged for its lead on the public tasks: public minus held-out gap closed."""
    if lead is None or lead.low is None or lead.low < PUBLIC_LEAD:
        return ()
    return (
        f"held-out: closes {lead.value:.2f} (at least {lead.low:.2f}) more of the gap on the public tasks than on "
        f"held-out ones; {PUBLIC_LEAD:g} or more is flagged",
    )
