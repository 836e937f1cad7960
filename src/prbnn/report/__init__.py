"""What people look at: metrics, tables and plots."""
