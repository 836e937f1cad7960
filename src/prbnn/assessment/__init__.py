"""How good a fit is and whether data agree with rules: metrics, scores, audit, anomalies."""
