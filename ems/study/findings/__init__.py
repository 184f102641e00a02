"""What numbers say, in words (verdicts) and figures."""
