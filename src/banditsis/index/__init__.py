"""The prepared copy of a data set: rows in random order, so the first of them are a random sample."""
