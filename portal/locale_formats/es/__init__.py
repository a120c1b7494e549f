"""Spanish: see the package."""
