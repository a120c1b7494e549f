"""The command line of Allotment."""

__version__ = "1.0.0"
