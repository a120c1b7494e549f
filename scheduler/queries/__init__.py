"""Finished values for pages and programs: each a number of queries that no number of rows raises."""
