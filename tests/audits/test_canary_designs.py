"""Canaries: what they are made of, and what their gradients share with other records."""

import numpy as np
import pytest

from dprepro.audits.canary_designs import arbitrary_canaries, own_share, own_token_canaries


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    x = np.pad(rng.normal(size=(40, 12)), ((0, 0), (0, 5)))
    return x, (rng.random(40) < 0.5).astype(float)


def test_arbitrary_canaries_are_records_with_labels_as_asked(data):
    x, y = data
    for label in ("own", "flipped", "random"):
        canaries, labels = arbitrary_canaries(x, y, 40, np.random.default_rng(1), label)
        rows = [np.flatnonzero((x == canary).all(axis=1))[0] for canary in canaries]
        assert sorted(rows) == list(range(40))  # each once
        agreement = np.mean(labels == y[rows])
        assert {"own": agreement == 1, "flipped": agreement == 0, "random": 0.1 < agreement < 0.9}[label]


def test_own_token_canaries(data):
    x, _ = data
    canaries = own_token_canaries(x, [12, 16], norm=3)
    np.testing.assert_array_equal(canaries @ canaries.T, 9 * np.eye(2))
    assert not (canaries @ x.T).any()
    marked = own_token_canaries(x, [12, 16], norm=3, records=x[:2])
    np.testing.assert_allclose(np.linalg.norm(marked, axis=1), 3)
    np.testing.assert_allclose(marked[:, 12:17] > 0, np.eye(5)[[0, 4]])
    np.testing.assert_allclose(marked[0, :12] / marked[0, 12], x[0, :12] / 3)


def test_own_share_against_a_projection(data):
    x, _ = data
    canaries = np.vstack(
        [own_token_canaries(x, [12], 3), x[:1], own_token_canaries(x, [13], 3, records=x[1:2])]
    )
    basis = np.linalg.svd(np.pad(x, ((0, 0), (0, 1)), constant_values=1), full_matrices=False)
    rows = basis.Vh[basis.S > 1e-9]
    ones = np.pad(canaries, ((0, 0), (0, 1)), constant_values=1)
    outside = np.linalg.norm(ones - ones @ rows.T @ rows, axis=1) / np.linalg.norm(ones, axis=1)
    shares = own_share(canaries, x)
    np.testing.assert_allclose(shares, outside, atol=1e-7)
    assert shares[0] == pytest.approx(3 / 10**0.5)  # only the bias is shared: norm 3 beside 1
    assert shares[1] == pytest.approx(0, abs=1e-7)
    # With fewer records than features a record has something of its own too.
    assert own_share(x[30:], x[:5]).min() > 0.3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x, y, r: arbitrary_canaries(x, y, 41, r),
            "count must be at most the number of records in x, got 41",
        ),
        (lambda x, y, r: arbitrary_canaries(x, y, 0, r), "count must be a whole number"),
        (lambda x, y, r: arbitrary_canaries(x, 2 * y - 1, 3, r), "y must hold a label 0 or 1"),
        (lambda x, y, r: arbitrary_canaries(x, y[:-1], 3, r), "y must hold a label"),
        (lambda x, y, r: arbitrary_canaries(x, y, 3, r, "worst"), "label must be one of"),
        (lambda x, y, r: own_token_canaries(x, [3], 1), "columns must be empty in x, got column 3 with 40"),
        (lambda x, y, r: own_token_canaries(x, [12, 12], 1), "columns must be different columns"),
        (
            lambda x, y, r: own_token_canaries(x, [17], 1),
            "columns must be different columns of x, from 0 to 16",
        ),
        (lambda x, y, r: own_token_canaries(x, [], 1), "columns must be different columns"),
        (lambda x, y, r: own_token_canaries(x, [12], 0), "norm must be in"),
        (lambda x, y, r: own_token_canaries(x, [12], 1, records=x[:2]), "records must have shape"),
        (lambda x, y, r: own_token_canaries(x * np.nan, [12], 1), "x must be finite"),
        (lambda x, y, r: own_share(x[:, :3], x), "canaries_x must have 17 columns"),
        (lambda x, y, r: own_share(x[0], x), "canaries_x must be an array"),
    ],
)
def test_wrong_input_is_named(data, call, message):
    with pytest.raises(ValueError, match=message):
        call(*data, np.random.default_rng(0))
