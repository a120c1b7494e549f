"""The demo: an invented laboratory with a past, and a present that goes on. All of it follows from a seed."""
