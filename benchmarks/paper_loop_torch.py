"""The PR-BNN paper's simulation 2 as a plain PyTorch loop: the baseline prbnn is timed against.

Two variants of the same training: ``eager`` draws and runs the network once per Monte Carlo draw
in a Python loop, with a sampled KL, as the paper's authors do; ``vectorised`` batches the draws
and uses the closed-form KL. Prints one JSON object. ``seconds_run`` is set-up and training alone:
neither the import of torch nor any evaluation (the final one, those of ``--until``) is in it.
"""

import argparse
import json
import math
import time

__started__ = time.perf_counter()
import numpy as np
import torch
import torch._dynamo  # the first optimiser would import it (0.9 s): import time, not run time
from torch import Tensor, nn
from torch.nn import functional as F

SECONDS_IMPORT = time.perf_counter() - __started__

DRAWS = 5
HIDDEN = 100
LEARNING_RATE = 0.005
KL_WEIGHT = 1 / 5
PENALTY = 1.0
CHECK_EVERY = 250
PAPER_MSE = 0.0052
TOLERANCE = 1e-4


def truth(x: np.ndarray) -> np.ndarray:
    """The curve the data are drawn around."""
    return (np.arctan(20 * x - 10) - np.arctan(-10)) / 3


def make_data(seed: int) -> tuple[Tensor, Tensor]:
    """The paper's data for seed 0 (87 rows), a fresh set of the same kind for any other seed."""
    x = np.sort(np.random.RandomState(1 + 1000 * seed).uniform(0.1, 0.65, 100))
    y = truth(x) + np.random.RandomState(10 + 1000 * seed).normal(0, 0.1, 100)
    keep = y >= 0
    assert seed != 0 or keep.sum() == 87, keep.sum()
    return torch.tensor(x[keep, None]).float(), torch.tensor(y[keep, None]).float()


def upper_bound(x: Tensor) -> Tensor:
    """The curve that knowledge says lies above the truth."""
    return torch.log(25 * x + 1) / 3 + 0.05


def log_normal(value: Tensor, mean: Tensor | float, sd: Tensor | float) -> Tensor:
    """Summed log density of independent normals."""
    log_sd = sd.log() if isinstance(sd, Tensor) else math.log(sd)
    return (-0.5 * ((value - mean) / sd) ** 2 - log_sd - 0.5 * math.log(2 * math.pi)).sum()


class BayesLinear(nn.Module):
    """A linear layer whose weights and biases are independent normals (sd = softplus(rho))."""

    def __init__(self, n_in: int, n_out: int, generator: torch.Generator) -> None:
        super().__init__()
        self.generator = generator
        bound = 1 / math.sqrt(n_in)
        for name, shape in (("w", (n_in, n_out)), ("b", (1, n_out))):
            mean = torch.empty(shape).uniform_(-bound, bound, generator=generator)
            self.register_parameter(f"{name}_mu", nn.Parameter(mean))
            self.register_parameter(f"{name}_rho", nn.Parameter(torch.full(shape, -3.0)))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """One draw: the layer's output, and log q - log p of the weights drawn."""
        sampled, kl = [], torch.zeros(())
        for mu, rho in ((self.w_mu, self.w_rho), (self.b_mu, self.b_rho)):
            sd = F.softplus(rho)
            value = mu + sd * torch.randn(mu.shape, generator=self.generator)
            kl = kl + log_normal(value, mu, sd) - log_normal(value, 0.0, 1.0)
            sampled.append(value)
        return x @ sampled[0] + sampled[1], kl

    def batched(self, x: Tensor, draws: int, generator: torch.Generator) -> Tensor:
        """Many draws at once: (points, in) or (draws, points, in) to (draws, points, out)."""
        w, b = (
            mu + F.softplus(rho) * torch.randn((draws, *mu.shape), generator=generator)
            for mu, rho in ((self.w_mu, self.w_rho), (self.b_mu, self.b_rho))
        )
        return torch.baddbmm(b, x.expand(draws, *x.shape[-2:]), w)

    def kl(self) -> Tensor:
        """Closed-form KL divergence from the standard normal prior."""
        total = torch.zeros(())
        for mu, rho in ((self.w_mu, self.w_rho), (self.b_mu, self.b_rho)):
            sd = F.softplus(rho)
            total = total + (0.5 * (mu**2 + sd**2 - 1) - sd.log()).sum()
        return total


class Net(nn.Module):
    """The 1-100-1 ReLU network and the log of its noise sd."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.first = BayesLinear(1, HIDDEN, generator)
        self.last = BayesLinear(HIDDEN, 1, generator)
        self.log_noise = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """One drawn function at x, and its log q - log p."""
        hidden, kl_first = self.first(x)
        out, kl_last = self.last(torch.relu(hidden))
        return out, kl_first + kl_last

    def batched(self, x: Tensor, draws: int, generator: torch.Generator) -> Tensor:
        """Many drawn functions at x: (draws, points, 1)."""
        hidden = torch.relu(self.first.batched(x, draws, generator))
        return self.last.batched(hidden, draws, generator)


def shortfalls(curve: Tensor, bound: Tensor) -> Tensor:
    """Mean shortfall (<= 0) of each of the three pieces of knowledge on (..., points, 1) curves."""
    pieces = (curve, bound - curve, curve.diff(dim=-2))
    return torch.stack([piece.clamp(max=0).mean() for piece in pieces])


def terms(net: Net, variant: str, inputs: Tensor, y: Tensor, bound: Tensor) -> tuple[Tensor, ...]:
    """Expected negative log likelihood, KL and shortfalls, each averaged over the draws."""
    n, noise = len(y), net.log_noise.exp()
    if variant == "vectorised":
        out = net.batched(inputs, DRAWS, net.first.generator)
        nll = -log_normal(y, out[:, :n], noise) / DRAWS
        return nll, net.first.kl() + net.last.kl(), shortfalls(out[:, n:], bound)
    nll, kl, short = torch.zeros(()), torch.zeros(()), torch.zeros(3)
    for _ in range(DRAWS):
        out, kl_draw = net(inputs)
        nll = nll - log_normal(y, out[:n], noise) / DRAWS
        kl = kl + kl_draw / DRAWS
        short = short + shortfalls(out[n:], bound) / DRAWS
    return nll, kl, short


@torch.no_grad()
def evaluate(net: Net) -> dict[str, object]:
    """Error, spread and violations, from draws of their own (training draws are untouched)."""
    x = torch.linspace(0.08, 1, 200)[:, None]
    curves = net.batched(x, 500, torch.Generator().manual_seed(12345))[..., 0]
    x, mean = x[:, 0], curves.mean(0)
    error = mean - torch.tensor(truth(x.double().numpy())).float()

    def broken(curve: Tensor) -> tuple[Tensor, ...]:
        pieces = (curve, upper_bound(x) - curve, curve.diff(dim=-1))
        return tuple((piece < -TOLERANCE).sum(-1) for piece in pieces)

    counts = zip(("lower", "upper", "monotone"), broken(mean), strict=True)
    return {
        "mse": (error**2).mean().item(),
        "std": curves.std(0).mean().item(),
        "violations_of_mean": {name: int(count) for name, count in counts},
        "draws_violating": (sum(broken(curves)) > 0).float().mean().item(),
    }


def run(variant: str, steps: int, seed: int, until: bool) -> dict[str, object]:
    """Train, then evaluate; with ``until``, also note when the paper's result is first reached."""
    start, paused, reached = time.perf_counter(), 0.0, (None, None)
    x, y = make_data(seed)
    grid = torch.linspace(0.08, 1, 50)[:, None]
    inputs, bound = torch.cat((x, grid)), upper_bound(grid)
    net = Net(torch.Generator().manual_seed(seed))
    optimiser = torch.optim.Adam(net.parameters(), lr=LEARNING_RATE)
    multiplier = torch.ones(3)
    for step in range(1, steps + 1):
        optimiser.zero_grad()
        nll, kl, e = terms(net, variant, inputs, y, bound)
        phi = torch.where(
            e <= multiplier / PENALTY,
            -multiplier * e + PENALTY * e**2 / 2,
            -(multiplier**2) / (2 * PENALTY),
        )
        ((nll + KL_WEIGHT * kl) / len(y) + phi.sum()).backward()
        optimiser.step()
        multiplier = (multiplier - PENALTY * e.detach()).clamp(min=0)
        if until and reached[0] is None and step % CHECK_EVERY == 0:
            before = time.perf_counter()
            result = evaluate(net)
            if result["mse"] <= PAPER_MSE and not any(result["violations_of_mean"].values()):
                reached = (before - start - paused, step)
            paused += time.perf_counter() - before
    seconds_run = time.perf_counter() - start - paused
    return {
        "variant": variant,
        "steps": steps,
        "seconds_import": SECONDS_IMPORT,
        "seconds_run": seconds_run,
        **evaluate(net),
        "seconds_to_paper_result": reached[0],
        "steps_to_paper_result": reached[1],
    }


def main() -> None:
    """Read the command line, run, print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variant", choices=("eager", "vectorised"), required=True)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--until", action="store_true", help="note when the result is reached")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(json.dumps(run(args.variant, args.steps, args.seed, args.until)))


if __name__ == "__main__":
    main()
