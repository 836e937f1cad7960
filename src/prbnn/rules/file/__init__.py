"""The knowledge file: its grammar, reading it with line numbers, writing it."""
