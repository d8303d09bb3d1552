"""What the commands do; ``cli.py`` only parses."""
