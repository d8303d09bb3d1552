"""The loop's parts: which rows are read, the sums kept for each feature, and what each round found."""
