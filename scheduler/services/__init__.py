"""Verbs that change rows: each one is one transaction that is also in the cluster's event log."""
