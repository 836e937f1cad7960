"""What is fitted: networks, priors and likelihoods; rules by construction."""
