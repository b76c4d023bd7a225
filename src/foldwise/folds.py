"""Every fold as a value."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Fold:
    """What is computed: a name, the value that changes nothing, and the rows of the native table that do it."""

    name: str
    """The reduction's public name."""
    scan: str
    standard_scan: str
    """The scan's names: NumPy's, and the Array API's."""
    identity: int
    wrapping: str
    """The native fold whose integers wrap."""
    judged: str
    """The native fold that knows the exact integer, for overflow="saturate" and "raise"."""


SUM: Final = Fold("sum", "cumsum", "cumulative_sum", 0, "sum", "judged_sum")
PROD: Final = Fold("prod", "cumprod", "cumulative_prod", 1, "prod", "judged_prod")

FOLDS: Final = (SUM, PROD)
