"""Ways to evaluate that are not the paper's, beside the chain that is."""
