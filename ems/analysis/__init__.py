"""What follows from results: values, intervals, tests, tables and pages."""
