"""`prbnn check`: proofs of every rule for every stored draw of a run, and the sets they cover."""

from __future__ import annotations

import time
from pathlib import Path

import typer
from rich.table import Table

from prbnn.assessment.doubts import undecided
from prbnn.runs.checking import check_run, earlier_certificate, keep
from prbnn.runs.folder import CERTIFICATE
from prbnn.runs.records import write_record
from prbnn.runs.run import open_run
from prbnn.system.exits import INFEASIBLE, exiting_on_errors
from prbnn.system.terminal import Screen


def run(folder: Path, records: Path | None, seconds: float, rows: int | None, quiet: bool) -> None:
    """Prove or refute each rule for each draw, print a table and write the certificate.

    ``records`` is a file for the findings as JSON, ``seconds`` the time limit of the proofs, ``rows`` the
    number of training rows at which columns that a rule does not name are held. The exit code is 3 where
    a draw breaks a rule that every draw must obey.
    """
    began = time.perf_counter()
    with exiting_on_errors():
        opened = open_run(folder)
        console = Screen(quiet=quiet, soft_wrap=True)
        damaged = earlier_certificate(opened)
        if damaged:
            console.print(f"- {damaged}")
        with console.status("checking every draw") as status:

            def tell(rule: str, done: float) -> None:
                status.update(f"proving {rule}: {done:.0%} of draws decided")

            found, certificate = check_run(opened, seconds, rows, tell)
        if certificate is not None:
            keep(certificate, folder, opened.identity)
        if records is not None:
            write_record(records, [rule._asdict() for rule in found])
    if not found:
        console.print("The run was fitted without rules; there is nothing to check.")
        return
    table = Table(header_style="bold")
    texts = ("rule", "proofs of", "verdict")
    for heading in ("rule", "draws", "proved", "refuted", "undecided", *texts[1:]):
        table.add_column(heading, justify="left" if heading in texts else "right")
    for rule in found:
        counts = (rule.draws, rule.proved, rule.refuted, rule.undecided)
        table.add_row(rule.rule, *map(str, counts), rule.examined, rule.verdict)
    console.print(table)
    for rule in found:
        if rule.region:
            console.print(f"{rule.rule}: {rule.region}")
        if rule.counterexample is not None:
            place = ", ".join(f"{name} = {value:g}" for name, value in rule.counterexample.items())
            console.print(f"  broken, for one draw, at {place}")
    for doubt in undecided(certificate) if certificate is not None else ():
        console.print(f"Warning: {doubt}")
    console.print(
        f"{time.perf_counter() - began:.1f} s. Proofs hold everywhere in the region named above, "
        "rounding included, and say nothing beyond it. Every draw was also evaluated at "
        f"{found[0].points} fresh points, at training rows and between them, and one that breaks a rule "
        f"there is refuted. The certificate is {folder / CERTIFICATE}."
    )
    if any(rule.fails for rule in found):
        raise typer.Exit(INFEASIBLE)
