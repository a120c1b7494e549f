"""`python -m allot` is `allot`."""

from allot.main import run

if __name__ == "__main__":
    run()
