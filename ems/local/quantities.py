"""Numbers in English financial prose, with unit, scale, period and direction: "$11.4bn" is "11,400 million".

One pass over the text, longest form first. Marks that only look like amounts are passed over: footnotes such
as [4], list numbers, "Table 3", names with a number glued to letters ("10-K", "COVID-19").
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

# --- words and marks, and what they are worth

_ONES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
         "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_WORDS = {w: i for i, w in enumerate(_ONES)} | {w: 10 * i for i, w in enumerate(_TENS, 2)} | {"dozen": 12}
_ORDINALS = {"first": 1, "1st": 1, "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4}
_SCALES = {"hundred": 1e2, "thousand": 1e3, "k": 1e3, "million": 1e6, "mn": 1e6, "mm": 1e6, "m": 1e6,
           "billion": 1e9, "bn": 1e9, "b": 1e9, "trillion": 1e12, "tn": 1e12, "t": 1e12}
_CURRENCIES = {
    "$": "USD", "us$": "USD", "usd": "USD", "dollar": "USD", "€": "EUR", "eur": "EUR", "euro": "EUR",
    "£": "GBP", "gbp": "GBP", "¥": "JPY", "jpy": "JPY", "yen": "JPY", "rmb": "CNY", "cny": "CNY",
    "yuan": "CNY", "c$": "CAD", "cad": "CAD", "a$": "AUD", "aud": "AUD", "hk$": "HKD", "chf": "CHF",
}
# Unit as written -> (canonical unit, factor). Points of a percentage are written both ways in practice ("50
# basis points", "0.5%"), so they share the unit; the context tells them from a growth rate.
_UNITS = {
    "%": ("%", 1), "percent": ("%", 1), "per cent": ("%", 1), "pct": ("%", 1), "percentage point": ("%", 1),
    "point": ("%", 1), "pp": ("%", 1), "basis point": ("%", 0.01), "bp": ("%", 0.01),
    "x": ("x", 1), "time": ("x", 1), "fold": ("x", 1), "cent": ("USD", 0.01),
    "day": ("day", 1), "week": ("day", 7), "month": ("month", 1), "year": ("month", 12),
    "hour": ("minute", 60), "minute": ("minute", 1),
    "people": ("person", 1), "person": ("person", 1), "employee": ("person", 1),
    "countries": ("country", 1), "cities": ("city", 1), "branches": ("branch", 1),
    "gw": ("watt", 1e9), "gigawatt": ("watt", 1e9), "mw": ("watt", 1e6), "megawatt": ("watt", 1e6),
    "gwh": ("watt hour", 1e9), "mwh": ("watt hour", 1e6), "kwh": ("watt hour", 1e3),
}
_COUNTED = (
    "person people employee countries country cities city branches branch user customer client member "
    "subscriber share store vehicle unit market state patient location product model phone order "
    "transaction account loan deal mile ton barrel acre"
)
_MULTIPLES = {"d": 2, "t": 3, "q": 4}              # first letter of doubled, tripled, quadrupled
_PARTS = {"q": 25, "t": 100 / 3, "f": 20}          # percent in a quarter, a third, a fifth, by first letter
_COMPARED = {"y": 12, "q": 3, "s": 3, "m": 1}      # months between: yearly, quarterly, sequential, monthly

# --- pieces of the patterns

_SPELT = (rf"(?:(?:{'|'.join(_TENS)})[ -](?:{'|'.join(_ONES[1:10])})|{'|'.join(_TENS + _ONES[::-1])}"
          r"|(?:a[ ])?dozen)")
_MONTH = rf"((?:{'|'.join(_MONTHS)})(?:uary|ruary|ch|il|e|y|ust|t|tember|ober|ember)?)\.?"
_YEAR = r"(?:19|20)\d\d"
_SCALE = (r"(?:[ -]?(?i:hundred[ ](?:thousand|million)|hundred|thousand|million|billion|trillion|mm|mn|bn"
          r"|tn)s?\b|[kmbtKMBT]\b|[ ][KMBT]\b(?![ ][A-Z]))")
_SHARE = r"(?:\s?%|[ -]?(?i:(?:percentage|basis)[ ]points?|percent|per[ ]cent|pct|points?|bps?|pp)\b)"
_NAMED = (rf"(?:{_SHARE}|[ -]?(?i:cents?|dollars?|euros?|yen|yuan|usd|eur|gbp|jpy|rmb|cny|x|times|fold|days?"
          r"|weeks?|months?|years?|hours?|minutes?|gigawatts?|megawatts?|[gmk]wh|[gm]w)\b)")
# Between a number and what it counts stand two words at most, none that begins a phrase: "2025 the market".
_UNIT = (rf"(?:{_NAMED}|(?:[ -](?!(?:and|to|in|of|or|for|by|per|with|the|our|its|their|this|these)\b)[a-z]+)"
         rf"{{0,2}}?[ -](?:{_COUNTED.replace(' ', '|')})s?\b)")
# A year after one of these words is a year whatever it seems to count: "In 2024 customers spent".
_WHEN = "|".join(rf"(?<=\b{word.capitalize()}[ ])|(?<=\b{word}[ ])"
                 for word in ("in", "since", "by", "during", "fiscal"))
_CURRENCY = r"(?:US\$|HK\$|C\$|A\$|[$€£¥]|\b(?:USD|EUR|GBP|JPY|CNY|RMB|CAD|AUD|CHF))"

# --- one alternative each of the scan, all in verbose syntax

_PASSED_OVER = rf"""
  (?P<skip>\[\d+(?:\s*[,;–-]\s*\d+)*\]                           # footnote marks
    | ^[ \t]*(?:[-*•>\#]++[ \t]*)?\**\(?\d{{1,2}}[.)]\**(?=\s)     # list numbers
    | (?<![|$])(?<![|$][ ])\([1-9]\)(?!{_SCALE}|{_SHARE})         # "(1) cloud, (2) pricing": no minus
    | \b(?i:paragraphs?|para|tables?|figures?|pages?|sections?|notes?|items?|steps?|exhibit|appendix
        |chapter|id)
      (?:[ ]ids?)?[ ]?[=:\#]?[ ]?\d+(?:(?:,[ ]?|[ ]?(?:and|to|&|-|–)[ ]?)\d+)*
      \b(?![.]\d|{_SCALE}|(?![ ]points?\b){_NAMED}))"""
_COMPARISON = r"""
  \b(?P<versus>(?i:year[ -]o(?:ver|n)[ -]year|yoy|y/y|year[ -]ago|quarter[ -]o(?:ver|n)[ -]quarter|qoq|q/q
    |sequential(?:ly)?|month[ -]over[ -]month))\b"""
_DATE = rf"""
  \b(?:(?P<month>{_MONTH})[ ](?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:,?[ ](?P<year1>{_YEAR}))?
      (?!\d|[ ]?%|[.]\d|{_SCALE})
    | (?P<day2>\d{{1,2}})(?:st|nd|rd|th)?[ ](?P<month2>{_MONTH})(?:,?[ ](?P<year2>{_YEAR}))?
    | (?P<month3>{_MONTH}),?[ ](?:of[ ])?(?P<year3>{_YEAR}) | (?P<iso>{_YEAR}-\d\d-\d\d))\b"""
# A short year may end its clause ("3Q24.", "Q3'24, up"), but "Q3 24.5" and "Q3 24,000" hold an amount.
_PERIOD = rf"""
  \b(?:[Qq](?P<q1>[1-4]) | (?P<q2>[1-4])[Qq] | [Hh](?P<h1>[12]) | (?P<h2>[12])[Hh]
    | (?P<ordinal>(?i:{'|'.join(_ORDINALS)}))[ -](?:(?i:fiscal)[ -])?(?P<span>(?i:quarter|half)))
    (?:(?:,|[ ]of)?[ ]?(?:the[ ])?(?:FY|CY|(?i:fiscal|calendar))?[ ]?(?:year[ ])?['’]?
       (?P<year4>{_YEAR}|(?<![ ])\d\d(?!\d|[.,]\d|%)|(?<=[ ])[0-3]\d(?!\d|[.,]\d|{_SCALE}|{_UNIT})))?\b
  | \b(?:FY|CY)[ ]?['’]?(?P<year5>{_YEAR}|\d\d)\b"""
_YEAR_ALONE = rf"""
  (?:(?<![\w$€£.,-])|(?<=\b(?:19|20)\d\d-))(?P<when>{_WHEN})?
    (?P<year6>{_YEAR})(?!\d|[,.]\d)\b(?!{_SCALE}|{_SHARE})(?(when)|(?!{_UNIT}))"""
_IN_WORDS = r"""
  \b(?:(?P<half>(?i:half))[ ](?:of|the|our|its|a) | (?i:an?[ ](?P<one>quarter|third|fifth)[ ]of)
    | (?P<times>(?i:two|three))[ -](?P<parts>(?i:quarters|thirds|fifths))[ ]of
    | (?P<multiple>(?i:doubl|tripl|quadrupl))(?i:e[ds]?|ing))\b"""
_IN_DIGITS = rf"""
  (?P<minus>\((?!{_YEAR}\))(?=[\d.,]+\))|(?<![\w)%])[-−–](?=[\d.$€£]))?
    (?:(?P<currency>{_CURRENCY})[ ]?(?P<minus2>[(-](?=[\d.,]+\)?))?|(?<![\d.,])(?<![^\W\d_])(?<![^\W\d_]-))
    (?P<digits>(?>\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+))
    \)?(?P<scale>{_SCALE})?(?P<unit>{_UNIT})?(?![^\W\d_]|-[A-Z])"""
_SPELT_OUT = rf"""
  \b(?P<spelt>(?i:{_SPELT}))(?P<and_half>[ ]and[ ]a[ ]half)?(?:[ ]\(\d+\))?
    (?P<scale2>{_SCALE})?(?P<unit2>{_UNIT})?(?!\w)"""
_SCAN = re.compile("\n|".join((_PASSED_OVER, _COMPARISON, _DATE, _PERIOD, _YEAR_ALONE, _IN_WORDS, _IN_DIGITS,
                              _SPELT_OUT)), re.VERBOSE | re.MULTILINE)
_DOWN = (r"(?:down|fell|fall(?:s|ing|en)?|decreas\w+|declin\w+|drop\w*|lower(?:ed|ing)?|reduc\w+"
         r"|contract(?:ed|ion)|shr[aiu]nk|loss(?:es)?|lost|negative|minus|cut|headwinds?|outflows?|plung\w+"
         r"|slump\w*)")
_UP = (r"(?:up|rose|ris(?:e|es|en|ing)|increas\w+|grew|grow(?:s|n|th|ing)?|gain(?:s|ed)?|higher|rais\w+"
       r"|climb\w*|improv\w+|expand\w*|expansion|jump\w*|surg\w+|positive|plus|add(?:s|ed))")
_FILLER = (r"(?:[ ,]+(?:of|by|about|around|approximately|roughly|nearly|almost|over|more|than|some|just|an?"
           r"|additional|another|slightly|was|is|were))*[ ]*")
_BEFORE = re.compile(rf"\b(?:({_DOWN})|{_UP}){_FILLER}$", re.IGNORECASE)
_AFTER = re.compile(rf"(?:[ -](?:year|yoy|over|on|annual|sequential|quarter|net))*[ ](?:({_DOWN})|{_UP})\b",
                    re.IGNORECASE)
_JOIN = re.compile(r"\s*(?:to|-|–|—)\s*(?:about |approximately )?")
_BETWEEN = re.compile(r"\bbetween (?:about |approximately )?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Quantity:
    """One number as it stands in a text.

    `value` is in the unit's base (dollars, percent, months, ...), negative only where printed so. A "date" is
    year * 10000 + part * 100 + day, part being a month 1-12, a quarter 13-16 or a half 17-18, 0 for what is
    not said; "versus" the span of a comparison in months: 12 for year over year.
    """

    value: float
    unit: str              # "USD", "%", "x", "month", "date", "share", ...; "" when none is printed
    tolerance: float       # half a unit of the last printed digit, in the same base: what rounding can hide
    start: int             # span in the text
    end: int
    direction: int = 0     # -1 "down 5%", +1 "up 5%", 0 not said
    scale: float = 1.0     # what its scale word multiplies by: 1e9 for "billion"

    @property
    def printed(self) -> tuple[Any, ...]:
        """Everything but where it stands: equal for two mentions written alike."""
        return self.value, self.unit, self.tolerance, self.direction, self.scale


def find_quantities(text: str) -> list[Quantity]:
    """Every quantity of `text` in order; both ends of a range carry the shared scale and unit."""
    quantities: list[Quantity] = []
    range_open = False               # whether the last one is a plain number, which may begin a range
    for match in _SCAN.finditer(text):
        if match["skip"]:
            continue
        if not (match["digits"] or match["spelt"]):
            quantities.append(_date_or_word(match))
            range_open = False
            continue
        number, factor = _number(match)
        if match["spelt"] and number.value in (0, 1) and number.unit == "":
            continue                 # "one of the", "no one": not a count
        if range_open and _is_range(text, quantities[-1], number):
            quantities[-1], number = _range(quantities[-1], number, factor)
        quantities.append(number)
        range_open = True
    return [_with_direction(q, text) for q in quantities]


def outside(text: str, quantities: Sequence[Quantity]) -> str:
    """What a text says beside these quantities of it, which are in order."""
    starts, ends = [0, *(q.end for q in quantities)], [*(q.start for q in quantities), len(text)]
    return " ".join(text[a:b] for a, b in zip(starts, ends, strict=True))


# --- when two quantities are the same

# Of two equal quantities, relative to the larger, however coarsely they are printed.
LARGEST_DIFFERENCE = 0.05


def same(a: Quantity, b: Quantity) -> bool:
    """Whether two quantities may be the same number, written or rounded differently. Symmetric.

    The coarser printing decides, by 5 % at most: 11.4 billion is 11.35 billion, 2 % is not 2.4 %. A number
    without unit may be an amount of money, something counted or, as a fraction, a percentage; one without
    scale may come from a table in thousands ("1,577" for "$1,577 million"). Dates agree in all parts that
    both give, of which there must be one.
    """
    if a.unit == b.unit == "date":
        return _same_date(a, b)
    if a.unit != b.unit:
        bare, other = (b, a) if a.unit else (a, b)
        read = _in_unit_of(other, bare)
        if read is None:
            return False
        a, b = read, other
    if a.direction * b.direction < 0:
        return False
    if (a.value < 0) != (b.value < 0) and 0 in (a.direction, b.direction):
        return False                 # a printed minus is a "down", never a number without direction
    if (a.scale == 1) != (b.scale == 1) and min(abs(a.value), abs(b.value)) >= 100:
        return _close(a, b) or _close(a, b, scaled=False)
    return _close(a, b)


def _same_date(a: Quantity, b: Quantity) -> bool:
    parts = [(int(q.value) // 10000, int(q.value) // 100 % 100, int(q.value) % 100) for q in (a, b)]
    agree = [x == y for x, y in zip(*parts, strict=True) if x and y]
    return bool(agree) and all(agree)


def _in_unit_of(other: Quantity, number: Quantity) -> Quantity | None:
    """`number` read as one of the unit of `other`, or None when it has a unit itself or cannot be one."""
    if number.unit:
        return None
    if other.unit == "%" and abs(number.value) < 1 and number.tolerance < 0.01:
        return replace(number, value=100 * number.value, tolerance=100 * number.tolerance)
    amount = number.scale != 1 or number.tolerance < 0.5 or abs(number.value) >= 100       # no small count
    return number if other.unit in _COUNTED or (amount and other.unit in _CURRENCIES.values()) else None


def _close(a: Quantity, b: Quantity, *, scaled: bool = True) -> bool:
    """Whether the values, or else the numbers before their scale words, agree as far as they are printed."""
    by_a, by_b = (1.0, 1.0) if scaled else (a.scale, b.scale)
    x, y, rounding = abs(a.value) / by_a, abs(b.value) / by_b, max(a.tolerance / by_a, b.tolerance / by_b)
    largest = max(x, y)
    return abs(x - y) <= min(rounding, LARGEST_DIFFERENCE * largest) + 1e-9 * largest


class QuantityIndex:
    """The quantities of many points by size, so that equals are found without comparing every two."""

    def __init__(self, points: Sequence[Sequence[Quantity]]):
        self._held: dict[tuple[Any, ...], Quantity] = {}                    # by what is printed
        self._holders: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        for j, quantities in enumerate(points):
            for q in quantities:
                self._held.setdefault(q.printed, q)
                self._holders[q.printed].append(j)
        self._by_size = sorted(((size, key) for key, q in self._held.items() for size in _sizes(q)),
                               key=itemgetter(0))
        self._known: dict[tuple[Any, ...], list[int]] = {}

    def equals(self, q: Quantity) -> list[int]:
        """The points that hold the `same` quantity, in order, each as often as it holds it."""
        key = q.printed
        if key not in self._known:
            least = 1 - LARGEST_DIFFERENCE - 0.01              # somewhat wider than `_close`
            near: set[tuple[Any, ...]] = set()
            for size in _sizes(q):
                first = bisect_left(self._by_size, least * size, key=itemgetter(0))
                last = bisect_right(self._by_size, size / least, key=itemgetter(0))
                near.update(other for _, other in self._by_size[first:last])
            self._known[key] = sorted(j for other in near if same(q, self._held[other])
                                      for j in self._holders[other])
        return self._known[key]


def _sizes(q: Quantity) -> set[float]:
    """The sizes under which `same` may compare a quantity: as it is, unscaled, as percentage; 0 for dates."""
    size = 0.0 if q.unit == "date" else abs(q.value)
    return {size, size / q.scale} | ({100 * size} if not q.unit and size < 1 else set())


# --- reading one match of the scan

def _number(match: re.Match[str]) -> tuple[Quantity, float]:
    """A number in digits or words, and the factor that its unit brought in."""
    value, tolerance = _printed_value(match)
    scale_words = (match["scale"] or match["scale2"] or "").strip(" -").lower().split()
    scale = math.prod((_SCALES[word.rstrip("s")] for word in scale_words), start=1.0)
    unit, factor, end = "", 1.0, match.end()
    if match["currency"]:            # "$5 per share", "$5 million loan": what follows is not the unit
        unit, end = _CURRENCIES[match["currency"].lower()], match.start("unit") if match["unit"] else end
    elif written := match["unit"] or match["unit2"]:
        unit, factor = _canonical_unit(written)
    sign, base = -1 if match["minus"] or match["minus2"] else 1, scale * factor
    return Quantity(sign * value * base, unit, tolerance * base, match.start(), end, 0, scale), factor


def _printed_value(match: re.Match[str]) -> tuple[float, float]:
    """The value of the digits or words, and half a unit of the last digit."""
    if digits := match["digits"]:
        return float(digits.replace(",", "")), 0.5 * 10.0 ** -len(digits.partition(".")[2])
    whole = float(sum(_WORDS.get(word, 0) for word in re.split("[ -]", match["spelt"].lower())))
    return (whole + 0.5, 0.05) if match["and_half"] else (whole, 0.5)


def _canonical_unit(written: str) -> tuple[str, float]:
    """The unit of a name as written, and what it multiplies by; its last word decides, in the singular."""
    name = written.strip(" -").lower()
    last = re.split("[ -]", name)[-1]
    singular = last.removesuffix("s")
    known = (_UNITS[key] for key in (name, name.removesuffix("s"), last, singular) if key in _UNITS)
    return next(known, (_CURRENCIES.get(singular, singular), 1.0))


def _is_range(text: str, a: Quantity, b: Quantity) -> bool:
    """Whether two neighbouring numbers are the ends of a range: "a to b", "a-b", "between a and b"."""
    if text[a.end:b.start].strip() == "and":
        return bool(_BETWEEN.search(text, max(0, a.start - 24), a.start))
    return bool(_JOIN.fullmatch(text, a.end, b.start))


def _range(a: Quantity, b: Quantity, factor: float) -> tuple[Quantity, Quantity]:
    """Give both ends of a range ("17.4 to 17.6 billion") the scale and unit of either; `factor` is b's."""
    if a.unit and a.unit != b.unit and (b.unit or a.unit not in _CURRENCIES.values()):
        return a, b                  # "5% to $10 billion", "35% to 11,400 million"
    scale = b.scale if a.scale == 1 and abs(a.value) < 1000 else 1.0
    by = scale * (1.0 if a.unit else factor)
    first = replace(a, value=a.value * by, tolerance=a.tolerance * by, unit=a.unit or b.unit,
                    scale=a.scale * scale)
    return first, replace(b, unit=b.unit or a.unit)


def _with_direction(q: Quantity, text: str) -> Quantity:
    """Read "down", "a decline of" or "growth" right beside the number."""
    if q.unit in ("date", "versus"):
        return q
    if q.value < 0:
        return replace(q, direction=-1)
    near = _BEFORE.search(text, max(0, q.start - 56), q.start) or _AFTER.match(text, q.end, q.end + 48)
    return replace(q, direction=-1 if near[1] else 1) if near else q


def _date_or_word(match: re.Match[str]) -> Quantity:
    """Comparison spans, fractions and multiples in words, dates and fiscal periods."""
    value: float
    if match["versus"]:
        value, unit = _COMPARED[match["versus"][0].lower()], "versus"
    elif match["multiple"]:
        value, unit = _MULTIPLES[match["multiple"][0].lower()], "x"
    elif match["half"]:
        value, unit = 50, "%"
    elif part := match["one"] or match["parts"]:
        value, unit = _PARTS[part[0].lower()] * _WORDS[(match["times"] or "one").lower()], "%"
    else:
        value, unit = _date(match), "date"
    return Quantity(float(value), unit, 0.0 if unit == "date" else 0.5, match.start(), match.end())


def _date(match: re.Match[str]) -> int:
    """Year * 10000 + part * 100 + day of a date or fiscal period; 0 for what is not given."""
    if match["iso"]:
        return int(match["iso"].replace("-", ""))
    year = next((int(match[f"year{i}"]) for i in range(1, 7) if match[f"year{i}"]), 0)
    year += 2000 if 0 < year < 100 else 0
    return year * 10000 + _part_of_year(match) * 100 + int(match["day"] or match["day2"] or 0)


def _part_of_year(match: re.Match[str]) -> int:
    """A month as 1-12, a quarter as 13-16, a half as 17-18, none as 0."""
    if month := match["month"] or match["month2"] or match["month3"]:
        return _MONTHS.index(month[:3]) + 1
    if quarter := match["q1"] or match["q2"]:
        return 12 + int(quarter)
    if half := match["h1"] or match["h2"]:
        return 16 + int(half)
    if ordinal := match["ordinal"]:
        return _ORDINALS[ordinal.lower()] + (12 if match["span"][0] in "qQ" else 16)
    return 0
