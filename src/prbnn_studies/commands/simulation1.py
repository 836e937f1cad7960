"""The command on simulation 1: every engine, with and without knowledge, as a table and a picture."""

from __future__ import annotations

from pathlib import Path

from prbnn_studies import simulation1 as simulation
from prbnn_studies.commands.shared import Files, screen
from prbnn_studies.tables.simulation1 import engines as engine_table


def study(engines: list[str], files: Files, out: Path) -> None:
    """Fit, print beside the OC-BNN authors' numbers, draw."""
    console = screen()
    found, curves = [], {}
    with console.status("starting") as status:
        for measured, curve in simulation.study(
            engines, progress=lambda text: status.update(f"fitting {text}")
        ):
            found.append(measured)
            curves[measured.engine, measured.strength] = curve
    results = simulation.summary(found)
    console.print(engine_table(results).for_terminal())
    console.print(
        f"Soft: {simulation.WEIGHT:g} nats per unit of mean violation, trained {simulation.MARGIN:g} "
        "inside the band. OC-BNN: the authors' own prior, as published. In band: of the raw draws; "
        "stored: of those kept under a hard rule.\nThe authors' runs on one core: BBB "
        f"{simulation.PUBLISHED_SECONDS['bbb']:g} s, HMC {simulation.PUBLISHED_SECONDS['nuts']:g} s "
        "(extrapolated); their HMC is compared with NUTS."
    )
    for measured in found:
        if measured.engine == "nuts":
            console.print(
                f"NUTS, {measured.strength}: E y(1.5) - E y(-1.5) = {measured.asymmetry:.3f} +- "
                f"{measured.asymmetry_error:.3f}"
            )
    simulation.draw(curves, out)
    console.print(f"Picture: {out.resolve()}", soft_wrap=True)
    files.write(found, results)
    files.name(console)
