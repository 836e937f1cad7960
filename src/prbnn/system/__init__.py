"""Files, processes, untrusted JSON, text for terminals, exit codes."""
