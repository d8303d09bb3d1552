"""The index of a data set: its rows in random order, and one bit for each cell."""
