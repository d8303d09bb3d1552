"""Products of columns as features that are never stored."""
