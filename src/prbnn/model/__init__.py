"""What is fitted: networks, priors, likelihoods and scaling."""
