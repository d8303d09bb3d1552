"""Plans: how many rows each round reads and how many features it keeps."""
