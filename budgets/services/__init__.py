"""The verbs that change people, tree, roles and shares: one transaction each, with an entry in the ledger."""
