"""The database of a process that was given none: commands on files need none."""
