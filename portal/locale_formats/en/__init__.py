"""English: see the package."""
