"""Studies: data, model and knowledge of each, its table and its picture."""
