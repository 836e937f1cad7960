"""What touches the machine: files, processes, JSON from strangers, text for terminals."""
