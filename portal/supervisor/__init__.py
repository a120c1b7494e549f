"""Starts, watches and stops everything that runs on one machine: behind `./run`, `./test` and their kin.

__main__       the command line
installation   the virtual environment (standard library only: it runs before anything is installed)
place          the data folder: its lock, its secrets, the private servers' folders and account
servers        the private PostgreSQL and Valkey
services       what `./run` starts; add a service there
processes      starting, watching, stopping processes so that none is left behind
running        `./run`
borrowing      the servers for one command, or for a test run
testing        `./test`
"""
