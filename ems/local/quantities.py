"""Numbers in English financial prose, with unit, scale, period and direction: "$11.4bn" equals "11,400 million".

One pass over the text, longest form first. Marks that only look like amounts are passed over: footnotes such as [4],
list numbers, "Table 3", names with a number glued to letters ("10-K", "COVID-19").
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_ONES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
         "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_WORDS = {w: i for i, w in enumerate(_ONES)} | {w: 10 * i for i, w in enumerate(_TENS, 2)} | {"dozen": 12}
_ORDINALS = {"first": 1, "1st": 1, "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4}
_SCALES = {"hundred": 1e2, "thousand": 1e3, "k": 1e3, "million": 1e6, "mn": 1e6, "mm": 1e6, "m": 1e6,
           "billion": 1e9, "bn": 1e9, "b": 1e9, "trillion": 1e12, "tn": 1e12, "t": 1e12}
_CURRENCIES = {"$": "USD", "us$": "USD", "usd": "USD", "dollar": "USD", "€": "EUR", "eur": "EUR", "euro": "EUR",
               "£": "GBP", "gbp": "GBP", "¥": "JPY", "jpy": "JPY", "yen": "JPY", "rmb": "CNY", "cny": "CNY",
               "yuan": "CNY", "c$": "CAD", "cad": "CAD", "a$": "AUD", "aud": "AUD", "hk$": "HKD", "chf": "CHF"}
# Unit as written -> (canonical unit, factor). Points of a percentage are written both ways in practice ("50 basis
# points", "0.5%"), so they share the unit; what tells them from a growth rate is the context, not the number.
_UNITS = {"%": ("%", 1), "percent": ("%", 1), "per cent": ("%", 1), "pct": ("%", 1), "percentage point": ("%", 1),
          "point": ("%", 1), "pp": ("%", 1), "basis point": ("%", .01), "bp": ("%", .01), "x": ("x", 1),
          "time": ("x", 1), "fold": ("x", 1), "cent": ("USD", .01), "day": ("day", 1), "week": ("day", 7),
          "month": ("month", 1), "year": ("month", 12), "hour": ("minute", 60), "minute": ("minute", 1),
          "people": ("person", 1), "person": ("person", 1), "employee": ("person", 1), "countries": ("country", 1),
          "cities": ("city", 1), "branches": ("branch", 1), "gw": ("watt", 1e9), "gigawatt": ("watt", 1e9),
          "mw": ("watt", 1e6), "megawatt": ("watt", 1e6), "gwh": ("watt hour", 1e9), "mwh": ("watt hour", 1e6),
          "kwh": ("watt hour", 1e3)}
_COUNTED = ("person people employee countries country cities city branches branch user customer client member "
            "subscriber share store vehicle unit market state patient location product model phone order transaction "
            "account loan deal mile ton barrel acre")
_SPELT = rf"(?:(?:{'|'.join(_TENS)})[ -](?:{'|'.join(_ONES[1:10])})|{'|'.join(_TENS + _ONES[::-1])}|(?:a[ ])?dozen)"
_MONTH = rf"((?:{'|'.join(_MONTHS)})(?:uary|ruary|ch|il|e|y|ust|t|tember|ober|ember)?)\.?"
_YEAR = r"(?:19|20)\d\d"
_SCALE = r"(?:[ -]?(?i:hundred[ ](?:thousand|million)|hundred|thousand|million|billion|trillion|mm|mn|bn|tn)s?\b" \
         r"|[kmbtKMBT]\b|[ ][KMBT]\b(?![ ][A-Z]))"
_SHARE = r"(?:\s?%|[ -]?(?i:(?:percentage|basis)[ ]points?|percent|per[ ]cent|pct|points?|bps?|pp)\b)"
_NAMED = (rf"(?:{_SHARE}|[ -]?(?i:cents?|dollars?|euros?|yen|yuan|usd|eur|gbp|jpy|rmb|cny|x|times|fold|days?|weeks?|months?"
          r"|years?|hours?|minutes?|gigawatts?|megawatts?|[gmk]wh|[gm]w)\b)")
# Between a number and what it counts may stand two words, but none that begins another phrase: "2025 the market will".
_UNIT = (rf"(?:{_NAMED}|(?:[ -](?!(?:and|to|in|of|or|for|by|per|with|the|our|its|their|this|these)\b)[a-z]+){{0,2}}?"
         rf"[ -](?:{_COUNTED.replace(' ', '|')})s?\b)")
# A year after one of these is one whatever it seems to count: "In 2024 customers spent", not 2024 customers.
_WHEN = "|".join(rf"(?<=\b{word[0].upper()}{word[1:]}[ ])|(?<=\b{word}[ ])" for word in ("in", "since", "by", "during", "fiscal"))
_SCAN = re.compile(rf"""
    (?P<skip>\[\d+(?:\s*[,;–-]\s*\d+)*\]                             # footnote marks
      | ^[ \t]*(?:[-*•>\#]+[ \t]*)?\**\(?\d{{1,2}}[.)]\**(?=\s)        # list numbers
      | (?<![|$])(?<![|$][ ])\([1-9]\)(?!{_SCALE}|{_SHARE})           # "(1) cloud, (2) pricing": no accountant's minus
      | \b(?i:paragraphs?|para|tables?|figures?|pages?|sections?|notes?|items?|steps?|exhibit|appendix|chapter|id)
        (?:[ ]ids?)?[ ]?[=:\#]?[ ]?\d+(?:(?:,[ ]?|[ ]?(?:and|to|&|-|–)[ ]?)\d+)*\b(?![.]\d|{_SCALE}|(?![ ]points?\b){_NAMED}))
  | \b(?P<versus>(?i:year[ -]o(?:ver|n)[ -]year|yoy|y/y|year[ -]ago|quarter[ -]o(?:ver|n)[ -]quarter|qoq|q/q
      |sequential(?:ly)?|month[ -]over[ -]month))\b
  | \b(?:(?P<month>{_MONTH})[ ](?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:,?[ ](?P<year1>{_YEAR}))?(?!\d|[ ]?%|[.]\d|{_SCALE})
      | (?P<day2>\d{{1,2}})(?:st|nd|rd|th)?[ ](?P<month2>{_MONTH})(?:,?[ ](?P<year2>{_YEAR}))?
      | (?P<month3>{_MONTH}),?[ ](?:of[ ])?(?P<year3>{_YEAR}) | (?P<iso>{_YEAR}-\d\d-\d\d))\b
  | \b(?:[Qq](?P<q1>[1-4]) | (?P<q2>[1-4])[Qq] | [Hh](?P<h1>[12]) | (?P<h2>[12])[Hh]
      | (?P<ordinal>(?i:{'|'.join(_ORDINALS)}))[ -](?:(?i:fiscal)[ -])?(?P<span>(?i:quarter|half)))
      (?:(?:,|[ ]of)?[ ]?(?:the[ ])?(?:FY|CY|(?i:fiscal|calendar))?[ ]?(?:year[ ])?['’]?
         (?P<year4>{_YEAR}|(?<![ ])\d\d(?![\d,.%])|(?<=[ ])[0-3]\d(?![\d,.]|{_SCALE}|{_UNIT})))?\b
  | \b(?:FY|CY)[ ]?['’]?(?P<year5>{_YEAR}|\d\d)\b
  | (?:(?<![\w$€£.,-])|(?<=\b(?:19|20)\d\d-))(?P<when>{_WHEN})?
      (?P<year6>{_YEAR})(?!\d|[,.]\d)\b(?!{_SCALE}|{_SHARE})(?(when)|(?!{_UNIT}))
  | \b(?:(?P<half>(?i:half))[ ](?:of|the|our|its|a) | (?i:an?[ ](?P<one>quarter|third|fifth)[ ]of)
      | (?P<times>(?i:two|three))[ -](?P<parts>(?i:quarters|thirds|fifths))[ ]of
      | (?P<multiple>(?i:doubl|tripl|quadrupl))(?i:e[ds]?|ing))\b
  | (?P<minus>\((?!{_YEAR}\))(?=[\d.,]+\))|(?<![\w)])[-−–](?=[\d.$€£]))?
      (?:(?P<currency>US\$|HK\$|C\$|A\$|[$€£¥]|\b(?:USD|EUR|GBP|JPY|CNY|RMB|CAD|AUD|CHF))[ ]?
         (?P<minus2>[(-](?=[\d.,]+\)?))?|(?<![\d.,])(?<![^\W\d_])(?<![^\W\d_]-))(?P<digits>(?>\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+))
      \)?(?P<scale>{_SCALE})?(?P<unit>{_UNIT})?(?![^\W\d_]|-[A-Z])
  | \b(?P<spelt>(?i:{_SPELT}))(?P<and_half>[ ]and[ ]a[ ]half)?(?:[ ]\(\d+\))?(?P<scale2>{_SCALE})?(?P<unit2>{_UNIT})?(?!\w)
""", re.VERBOSE | re.MULTILINE)
_DOWN = (r"(?:down|fell|fall(?:s|ing|en)?|decreas\w+|declin\w+|drop\w*|lower(?:ed|ing)?|reduc\w+|contract(?:ed|ion)"
         r"|shr[aiu]nk|loss(?:es)?|lost|negative|minus|cut|headwinds?|outflows?|plung\w+|slump\w*)")
_UP = (r"(?:up|rose|ris(?:e|es|en|ing)|increas\w+|grew|grow(?:s|n|th|ing)?|gain(?:s|ed)?|higher|rais\w+|climb\w*"
       r"|improv\w+|expand\w*|expansion|jump\w*|surg\w+|positive|plus|add(?:s|ed))")
_FILLER = (r"(?:[ ,]+(?:of|by|about|around|approximately|roughly|nearly|almost|over|more|than|some|just|an?|additional"
           r"|another|slightly|was|is|were))*[ ]*")
_BEFORE = re.compile(rf"\b(?:({_DOWN})|{_UP}){_FILLER}$", re.IGNORECASE)
_AFTER = re.compile(rf"(?:[ -](?:year|yoy|over|on|annual|sequential|quarter|net))*[ ](?:({_DOWN})|{_UP})\b",
                    re.IGNORECASE)
_JOIN = re.compile(r"\s*(?:to|-|–|—)\s*(?:about |approximately )?")
_BETWEEN = re.compile(r"\bbetween (?:about |approximately )?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Quantity:
    """One number as it stands in a text.

    `value` is in the unit's base (dollars, percent, months, ...), negative only where printed so. Unit "date" holds
    year * 10000 + part * 100 + day, part being a month 1-12, a quarter 13-16 or a half 17-18, 0 for what is not said.
    Unit "versus" is the span of a comparison in months: 12 for year over year, 3 for sequential.
    """

    value: float
    unit: str              # "USD", "%", "x", "month", "date", "share", ...; "" when none is printed
    tolerance: float       # half a unit of the last printed digit, in the same base: what rounding can hide
    start: int             # span in the text
    end: int
    direction: int = 0     # -1 "down 5%", +1 "up 5%", 0 not said
    scale: float = 1.0     # what its scale word multiplies by: 1e9 for "billion"

    @property
    def amount(self) -> bool:
        """Whether it reads like an amount rather than a small count: a scale word, decimals, or 100 and more."""
        return self.scale != 1 or self.tolerance < 0.5 or abs(self.value) >= 100


def find_quantities(text: str) -> list[Quantity]:
    """Every quantity of `text` in order of appearance; both ends of a range carry the shared scale and unit."""
    found: list[Quantity] = []
    number = False                   # whether the last one is a plain number, which may begin a range
    for m in _SCAN.finditer(text):
        if m["skip"]:
            continue
        if not (m["digits"] or m["spelt"]):
            found.append(_special(m))
            number = False
            continue
        q, factor = _number(m)
        if m["spelt"] and q.value in (0, 1) and q.unit == "":
            continue                 # "one of the", "no one": not a count
        if number and _joined(text, found[-1], q):
            found[-1], q = _range(found[-1], q, factor)
        found.append(q)
        number = True
    return [_directed(q, text) for q in found]


def same(a: Quantity, b: Quantity) -> bool:
    """Whether two quantities may be the same number, written or rounded differently.

    The coarser printing decides, but never by more than 5 %: 11.4 billion is 11.35 billion, 2 % is not 2.4 %. Opposite
    directions differ. A number without unit may stand for money when it reads like an amount (11.4 billion, 42,146),
    for something counted, and for a percentage when it is a fraction (0.654); one without scale may come from a table
    in thousands or millions ("1,577" for "$1,577 million"). Dates agree when there is a part that both give and all
    such parts agree.
    """
    if a.unit == b.unit == "date":
        parts = [(int(x.value) // 10000, int(x.value) // 100 % 100, int(x.value) % 100) for x in (a, b)]
        both = [x == y for x, y in zip(*parts, strict=True) if x and y]
        return bool(both) and all(both)
    if a.unit != b.unit:
        if a.unit:
            a, b = b, a
        fraction = b.unit == "%" and abs(a.value) < 1 and a.tolerance < 0.01
        money = b.unit in _CURRENCIES.values() and a.amount
        if a.unit or not (fraction or money or b.unit in _COUNTED):
            return False
        a = replace(a, value=100 * a.value, tolerance=100 * a.tolerance) if fraction else a
    if a.direction * b.direction < 0:
        return False
    if (a.value < 0) != (b.value < 0) and 0 in (a.direction, b.direction):
        return False                 # a printed minus is a "down", never a number without direction
    if (a.scale == 1) != (b.scale == 1) and min(abs(a.value), abs(b.value)) >= 100:
        mantissas = [replace(q, value=q.value / q.scale, tolerance=q.tolerance / q.scale) for q in (a, b)]
        return _close(a, b) or _close(*mantissas)
    return _close(a, b)


def _close(a: Quantity, b: Quantity) -> bool:
    x, y = abs(a.value), abs(b.value)
    return abs(x - y) <= min(max(a.tolerance, b.tolerance), 0.05 * max(x, y)) + 1e-9 * max(x, y)


def missing_quantities(text: str, source: str) -> list[Quantity]:
    """The quantities of `text` that occur nowhere in `source`, in unit, scale and rounding forms alike.

    Directions and comparison spans are left aside: a source may say "declined" far from the number.
    """
    known = [_plain(q) for q in find_quantities(source)]
    return [q for q in find_quantities(text)
            if q.unit != "versus" and not any(same(_plain(q), other) for other in known)]


def _plain(q: Quantity) -> Quantity:
    return replace(q, value=abs(q.value), direction=0)


def _number(m: re.Match[str]) -> tuple[Quantity, float]:
    """A number in digits or words, and the factor that its unit brought in."""
    scale_text, unit_text = m["scale"] or m["scale2"] or "", m["unit"] or m["unit2"] or ""
    scale = 1.0
    for word in scale_text.strip(" -").lower().split():
        scale *= _SCALES[word] if word in _SCALES else _SCALES[word.rstrip("s")]
    if digits := m["digits"]:
        value, tolerance = float(digits.replace(",", "")), 0.5 * 10.0 ** -len(digits.partition(".")[2])
    else:
        value, tolerance = float(sum(_WORDS.get(w, 0) for w in re.split("[ -]", m["spelt"].lower()))), 0.5
        if m["and_half"]:
            value, tolerance = value + 0.5, 0.05
    end, unit, factor = m.end(), "", 1.0
    if m["currency"]:                # "$5 per share", "$5 million loan": what follows is not the unit
        unit, end = _CURRENCIES[m["currency"].lower()], m.start("unit") if m["unit"] else end
    elif unit_text:
        name = unit_text.strip(" -").lower()
        last = re.split("[ -]", name)[-1]
        for key in (name, name.removesuffix("s"), last, last.removesuffix("s")):
            if key in _UNITS:
                unit, factor = _UNITS[key]
                break
        else:
            unit = _CURRENCIES.get(key, key)
    sign, base = -1 if m["minus"] or m["minus2"] else 1, scale * factor
    return Quantity(sign * value * base, unit, tolerance * base, m.start(), end, 0, scale), factor


def _joined(text: str, a: Quantity, b: Quantity) -> bool:
    """Whether two neighbouring numbers are the ends of a range: "a to b", "a-b", "between a and b"."""
    if text[a.end:b.start].strip() == "and":
        return bool(_BETWEEN.search(text, max(0, a.start - 24), a.start))
    return bool(_JOIN.fullmatch(text, a.end, b.start))


def _range(a: Quantity, b: Quantity, factor: float) -> tuple[Quantity, Quantity]:
    """Give both ends of a range ("17.4 to 17.6 billion", "$1 and 2 billion") the scale and the unit of either.

    `factor` is what the unit of b multiplies by.
    """
    if a.unit and a.unit != b.unit and (b.unit or a.unit not in _CURRENCIES.values()):
        return a, b                  # "5% to $10 billion", "35% to 11,400 million"
    scale = b.scale if a.scale == 1 and abs(a.value) < 1000 else 1.0
    by = scale * (1.0 if a.unit else factor)
    return (replace(a, value=a.value * by, tolerance=a.tolerance * by, unit=a.unit or b.unit, scale=a.scale * scale),
            replace(b, unit=b.unit or a.unit))


def _directed(q: Quantity, text: str) -> Quantity:
    """Read "down", "a decline of" or "growth" right beside the number."""
    if q.unit in ("date", "versus"):
        return q
    if q.value < 0:
        return replace(q, direction=-1)
    near = _BEFORE.search(text, max(0, q.start - 56), q.start) or _AFTER.match(text, q.end, q.end + 48)
    return replace(q, direction=-1 if near[1] else 1) if near else q


def _special(m: re.Match[str]) -> Quantity:
    """Comparison spans, dates, fiscal periods, and fractions or multiples in words."""
    value, unit, tolerance = 0.0, "%", 0.5
    if m["versus"]:
        value, unit = {"y": 12, "q": 3, "s": 3, "m": 1}[m["versus"][0].lower()], "versus"
    elif m["multiple"]:
        value, unit = {"d": 2, "t": 3, "q": 4}[m["multiple"][0].lower()], "x"
    elif m["half"]:
        value = 50
    elif part := m["one"] or m["parts"]:
        value = {"q": 25, "t": 100 / 3, "f": 20}[part[0].lower()] * _WORDS[(m["times"] or "one").lower()]
    elif m["iso"]:
        value, unit = int(m["iso"].replace("-", "")), "date"
    else:
        year = next((int(m[f"year{i}"]) for i in range(1, 7) if m[f"year{i}"]), 0)
        month = m["month"] or m["month2"] or m["month3"]
        quarter, half = m["q1"] or m["q2"], m["h1"] or m["h2"]
        part = (_MONTHS.index(month[:3]) + 1 if month else 12 + int(quarter) if quarter else 16 + int(half) if half
                else _ORDINALS[m["ordinal"].lower()] + (12 if m["span"][0] in "qQ" else 16) if m["ordinal"] else 0)
        year += 2000 if 0 < year < 100 else 0
        value, unit = year * 10000 + part * 100 + int(m["day"] or m["day2"] or 0), "date"
    return Quantity(float(value), unit, 0.0 if unit == "date" else tolerance, m.start(), m.end())
