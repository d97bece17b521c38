"""What several stages ask: the prover of dimensions, shape and value rules, numpy reference functions."""
