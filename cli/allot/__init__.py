"""The command line of Allotment."""

__version__ = "0.1.0"
