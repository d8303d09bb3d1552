"""The shuffled store: data rewritten in random row order, so any prefix is a random sample."""
