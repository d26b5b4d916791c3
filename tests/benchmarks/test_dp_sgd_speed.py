"""DP-SGD on logistic regression: a step against the same step in Opacus, and the time of whole trainings."""

import time

import numpy as np
import pytest

from dprepro.mechanisms.dp_sgd import DPSGD

pytestmark = pytest.mark.benchmark


def best_cpu_seconds(work, repeats):
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def problem(n, d):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, d))
    return x, (x[:, 0] > 0).astype(int), rng


@pytest.mark.parametrize(("batch", "d"), [(10, 2), (64, 20)])
def test_a_step_against_opacus(batch, d):
    torch = pytest.importorskip("torch")
    opacus = pytest.importorskip("opacus")
    from opacus.optimizers import DPOptimizer

    x, y, rng = problem(batch, d)
    steps, clipping_norm, rate = 50, 1.0, 0.5
    model = opacus.GradSampleModule(torch.nn.Linear(d, 1).double())
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=rate),
        noise_multiplier=1.0,
        max_grad_norm=clipping_norm,
        expected_batch_size=batch,
    )
    loss_of = torch.nn.BCEWithLogitsLoss()
    rows, labels = torch.tensor(x), torch.tensor(y).double()[:, None]
    sgd = DPSGD(1.0, clipping_norm, 1.0, steps, rate)

    def theirs():
        for _ in range(steps):
            optimizer.zero_grad()
            loss_of(model(rows), labels).backward()
            optimizer.step()

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # CPU time would count idle threads against Opacus
    try:
        theirs()
        # Turn by turn, the best of each: a quiet moment for the one is a quiet moment for the other.
        pairs = [
            (best_cpu_seconds(theirs, 1), best_cpu_seconds(lambda: sgd.fit(x, y, rng), 10)) for _ in range(7)
        ]
    finally:
        torch.set_num_threads(threads)
    slow, fast = (min(side) / steps for side in zip(*pairs, strict=True))
    print(
        f"\na step on {batch} records of {d} columns: Opacus {1e6 * slow:.0f} us, here {1e6 * fast:.1f} us, "
        f"{slow / fast:.0f} times"
    )
    assert slow / fast > 20


@pytest.mark.parametrize(
    ("n", "d", "rate", "steps", "limit"), [(500, 2, 0.02, 250, 0.03), (2000, 1000, 0.05, 250, 2.0)]
)
def test_a_training(n, d, rate, steps, limit):
    x, y, rng = problem(n, d)
    sgd = DPSGD(1.0, 1.0, rate, steps, 0.5)
    seconds = best_cpu_seconds(lambda: sgd.fit(x, y, rng), 10)
    print(
        f"\n{steps} steps on {n:,} records of {d:,} columns, sample rate {rate}: {1e3 * seconds:.1f} ms of CPU"
    )
    assert seconds < limit
