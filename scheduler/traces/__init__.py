"""Readers of other people's files. Each gives typed rows, and refuses a bad one by row and field."""

from .rows import TraceError

__all__ = ["TraceError"]
