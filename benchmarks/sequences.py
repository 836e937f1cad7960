"""Seconds per epoch of a Bayesian LSTM on simulated landings: prbnn beside BLiTZ (PyTorch), in one run.

The same network on both sides (64 LSTM units, 64 tanh units, 75 outputs), the same batches of 128
with 2 draws of the weights, Adam, a learned noise for every output and a KL term. In both a draw of
the weights serves a whole sequence. Neither compilation nor set-up is timed, nor anything after the
last step. An epoch is as many rows as there are flights; both sides draw batches with replacement.

Each contender has a process of its own on the same two cores; they take turns, so that what else the
machine does slows all of them alike. PyTorch runs with two threads, which sleep while they wait (they
would spin otherwise, and lose most of their time where a core is busy), and with one. BLiTZ has no
rules: its seconds are without knowledge.

Run `python benchmarks/sequences.py`.
"""

import argparse
import multiprocessing
import os
import statistics
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from importlib.util import find_spec

from prbnn_studies import records
from prbnn_studies.tables import benchmarks as tables

CORES = 2
OBSERVED = 35
# defaults of PRBNNSequenceRegressor, which BLiTZ is given, too
UNITS = 64
BATCH = 128
DRAWS = 2
LEARNING_RATE = 0.003
TEMPERING = 0.1
FIRST_NOISE = 0.3
INSTALL = "pip install torch==2.13.0 && pip install --no-deps blitz-bayesian-pytorch"

# limits of the last altitude, in ft: the runway lies at 1,000
TOUCHDOWN = (950, 1050)
PRICE = 10.0


def flights(count):
    """Observed steps and the steps ahead, of simulated flights."""
    from prbnn_studies.landing.synthetic import approaches

    values = approaches(count, 0).values
    return values[:, :OBSERVED], values[:, OBSERVED:]


def prbnn_seconds(count, steps, knows, seed):
    """Seconds per step of training, without compilation."""
    from prbnn import Between, Falls, PRBNNSequenceRegressor
    from prbnn_studies.landing.tracks import VARIABLES

    rules = [
        Falls("altitude", lag=3).soft(PRICE),
        Between(*TOUCHDOWN, of="altitude", at="last").soft(PRICE),
    ]
    model = PRBNNSequenceRegressor(
        knowledge=rules if knows else (),
        variables=VARIABLES,
        tempering=TEMPERING,
        batch_size=BATCH,
        steps=steps,
        draws=8,
        random_state=seed,
        verbose=False,
    )
    with warnings.catch_warnings():
        # so few steps are far from convergence
        warnings.simplefilter("ignore")
        solution = model.fit(*flights(count)).solution_
    return solution.seconds_run / solution.steps


def blitz_seconds(count, steps, threads, seed):
    """Seconds per step of the loop: batch, loss, gradient, Adam."""
    import torch
    from blitz.modules import BayesianLinear, BayesianLSTM
    from blitz.utils import variational_estimator
    from torch import nn

    @variational_estimator
    class Network(nn.Module):
        def __init__(self, variables, outputs):
            super().__init__()
            self.recurrent = BayesianLSTM(variables, UNITS)
            self.hidden = BayesianLinear(UNITS, UNITS)
            self.output = BayesianLinear(UNITS, outputs)
            self.log_noise = nn.Parameter(torch.full((outputs,), FIRST_NOISE).log())

        def forward(self, x):
            states, _ = self.recurrent(x)
            return self.output(torch.tanh(self.hidden(states[:, -1])))

    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    x, y = (torch.tensor(scaled(part), dtype=torch.float32) for part in flights(count))
    y = y.flatten(1)
    network = Network(x.shape[2], y.shape[1])
    optimiser = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)

    def cost(mean, target):
        density = torch.distributions.Normal(mean, network.log_noise.exp()).log_prob(target)
        return -density.sum() * (count / BATCH)

    began = time.perf_counter()
    for _ in range(steps):
        rows = torch.randint(count, (BATCH,))
        optimiser.zero_grad()
        network.sample_elbo(x[rows], y[rows], cost, DRAWS, TEMPERING).backward()
        optimiser.step()
    return (time.perf_counter() - began) / steps


def scaled(values):
    """Every variable scaled to [0, 1]."""
    lowest, highest = values.min(axis=(0, 1)), values.max(axis=(0, 1))
    return (values - lowest) / (highest - lowest)


CONTENDERS = {
    "prbnn": (prbnn_seconds, False),
    "prbnn, two rules": (prbnn_seconds, True),
    "BLiTZ, 2 threads": (blitz_seconds, 2),
    "BLiTZ, 1 thread": (blitz_seconds, 1),
}


def on_two_cores():
    """Restrict this process to two cores, before any library counts them."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])


def measure(count, steps, repeats):
    """Seconds per step of every contender, ``repeats`` times in turn, the first turn not counted."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    spawn = multiprocessing.get_context("spawn")
    pools = {name: ProcessPoolExecutor(1, spawn, on_two_cores) for name in CONTENDERS}
    found = {name: [] for name in CONTENDERS}
    for turn in range(repeats + 1):
        for name, (seconds, option) in CONTENDERS.items():
            print(f"turn {turn} of {repeats}: {name}", file=sys.stderr)
            found[name].append(pools[name].submit(seconds, count, steps, option, turn).result())
    for pool in pools.values():
        pool.shutdown()
    return {name: seconds[1:] for name, seconds in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flights", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=2, help="of a measurement")
    parser.add_argument("--repeats", type=int, default=5)
    records.add_option(parser)
    options = parser.parse_args()
    missing = [name for name in ("torch", "blitz") if find_spec(name) is None]
    if missing:
        sys.exit(f"{' and '.join(missing)} not installed, needed for comparison: {INSTALL}")
    steps_per_epoch = options.flights / BATCH
    steps = max(1, round(options.epochs * steps_per_epoch))
    found = measure(options.flights, steps, options.repeats)
    versions = {name: version(name) for name in ("jax", "torch", "blitz-bayesian-pytorch")}
    print(
        f"{options.flights} flights, {steps} steps per measurement, medians of {options.repeats}; "
        + ", ".join(f"{name} {number}" for name, number in versions.items())
        + "\n"
    )
    results = {
        "flights": options.flights,
        "repeats": options.repeats,
        "steps_per_epoch": steps_per_epoch,
        "versions": versions,
        "contenders": {
            name: {
                part: steps_per_epoch * of(seconds)
                for part, of in (("median", statistics.median), ("lowest", min), ("highest", max))
            }
            for name, seconds in found.items()
        },
    }
    print(tables.sequences(results).markdown())
    records.write_record(options.record, results)


if __name__ == "__main__":
    main()
