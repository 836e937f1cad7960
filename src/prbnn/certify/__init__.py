"""What holds everywhere, with a proof: bounds of functions over boxes, and verdicts on rules."""

from prbnn.certify.certificate import Certificate, Counterexample, RuleCertificate
from prbnn.certify.certifying import certify
from prbnn.certify.enclosures.network_bounds import Bounds, bounds
from prbnn.certify.verifying import Verdict, verify

__all__ = [
    "Bounds",
    "Certificate",
    "Counterexample",
    "RuleCertificate",
    "Verdict",
    "bounds",
    "certify",
    "verify",
]
