"""Which numbers of a text are nowhere in its source: the check of our references against their calls."""

from dataclasses import replace
from functools import lru_cache

from ems.local.quantities import Quantity, find_quantities, same


def missing_quantities(text: str, source: str) -> list[Quantity]:
    """The quantities of `text` that occur nowhere in `source`, in unit, scale and rounding forms alike.

    Directions and comparison spans are left aside: a source may say "declined" far from the number.
    """
    return [q for q in find_quantities(text)
            if q.unit != "versus" and not any(same(_without_direction(q), other) for other in _known(source))]


@lru_cache(maxsize=2)
def _known(source: str) -> list[Quantity]:
    return [_without_direction(q) for q in find_quantities(source)]


def _without_direction(q: Quantity) -> Quantity:
    return replace(q, value=abs(q.value), direction=0)
