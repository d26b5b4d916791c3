"""Every saved result fits the code that made it, and an item drawn at random comes out again at full size."""

import random

import numpy as np
import pytest

from dprepro.base import results


@pytest.mark.parametrize("name", results.names())
def test_a_random_item_comes_out_again(name):
    saved = results.load(name)
    key = random.choice(list(saved))
    again = results.recompute(name, key)
    assert again.keys() == saved[key].keys()
    for part, value in again.items():
        if np.asarray(value).dtype.kind == "U":  # a text, or a list of texts
            assert value == saved[key][part], f"{name}, {key}, {part}"
        else:
            # Torch's sums differ in their last bits between processors; six digits are stored.
            np.testing.assert_allclose(value, saved[key][part], rtol=2e-6, err_msg=f"{name}, {key}, {part}")


def test_there_is_a_saved_result():
    assert results.names()
