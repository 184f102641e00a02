"""Figures of the notebooks: each function draws a table or a result; `save` writes PNG and PDF.

Colours are those of Okabe and Ito, which readers with any colour vision can distinguish.
"""

from .agreement import area_figure, pairs_figure, people_figure
from .families import contrast_figure, families_figure
from .ladder import grain_figure, ladder_figure
from .means import means_figure, paper_figure
from .panels import save
from .points import alignment_figure, extraction_figure
from .values import (
    choices_figure,
    heatmap,
    losses_figure,
    support_figure,
)

__all__ = [
    "alignment_figure",
    "area_figure",
    "choices_figure",
    "contrast_figure",
    "extraction_figure",
    "families_figure",
    "grain_figure",
    "heatmap",
    "ladder_figure",
    "losses_figure",
    "means_figure",
    "pairs_figure",
    "paper_figure",
    "people_figure",
    "save",
    "support_figure",
]
