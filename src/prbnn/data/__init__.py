"""Tables: read from files, data frames or arrays, checked, encoded as numbers and scaled."""
