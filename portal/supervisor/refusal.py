"""A "no" to whoever typed the command."""


class Refusal(Exception):
    """What is wrong, in one line for a person; the command ends with status 2 and has changed nothing."""
