"""What the verbs print with: text, tables, JSON, and pictures in the terminal."""
