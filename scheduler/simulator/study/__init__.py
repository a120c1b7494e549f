"""Studies of questions that were published as open: fragmentation under contracts, and what gaming a budget gains."""
