"""How good a fit is and whether data agree with rules: metrics, calibration, audit, anomalies."""
