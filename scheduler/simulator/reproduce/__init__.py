"""The published results, from invented laboratories: experiments, their figures, and the table."""

from .figures import Experiment, Figures, carry_out, measure
from .table import LINES, SCHEDULERS, BySchedulers, Line, Row, table

__all__ = [
    "LINES",
    "SCHEDULERS",
    "BySchedulers",
    "Experiment",
    "Figures",
    "Line",
    "Row",
    "carry_out",
    "measure",
    "table",
]
