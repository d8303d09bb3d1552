"""What every other package builds on: arrays, checks of user input, threads, progress, formatting."""
