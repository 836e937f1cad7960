"""The report on a fitted model: its findings in words, tables and plots, as one HTML page."""
