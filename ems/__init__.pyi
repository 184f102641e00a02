"""The public names. `__init__.py` reads this list, and editors and type checkers do."""

from .analysis.frames import to_frame as to_frame
from .analysis.report import save_report as save_report
from .analysis.stats import paired_table as paired_table
from .analysis.stats import summarise as summarise
from .analysis.tables import table1 as table1
from .baselines import RAGChecker as RAGChecker
from .coverage import Coverage as Coverage
from .data import load_answers as load_answers
from .data import load_results as load_results
from .data import load_triplets as load_triplets
from .data import save_results as save_results
from .evaluators import build as build
from .evaluators import evaluate as evaluate
from .evaluators import score_answer as score_answer
from .judge.client import LLMJudge as LLMJudge
from .judge.store import Replies as Replies
from .metrics import ems_scores as ems_scores
from .pipeline import EMS as EMS
from .results import CoverageResult as CoverageResult
from .results import EMSResult as EMSResult
from .types import Answer as Answer
from .types import InputError as InputError
from .types import Triplet as Triplet

__version__: str
