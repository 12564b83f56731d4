"""Output of the commands: text, tables, JSON, and a live display in the terminal."""
