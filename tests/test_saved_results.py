"""Every saved result fits the code that made it, and an item drawn at random comes out again at full size."""

import random

import numpy as np
import pytest

from dprepro.base import paths, results

SHIPPED = [name for name in results.names() if not name.startswith("paper_")]


@pytest.mark.parametrize("name", SHIPPED)
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
    assert SHIPPED


def test_those_of_the_profile_paper_are_larger_and_say_how_to_make_them():
    """Each is a shipped recipe with more subsets, reads the targets that belong to it, and nothing else differs."""
    larger = [name for name in results.names() if name not in SHIPPED]
    assert larger
    for name in larger:
        big, small = (results.recipe(part) for part in (name, name.removeprefix("paper_")))
        assert (big.function, big.seed) == (small.function, small.seed)
        differ = {part for part, value in big.parameters.items() if value != small.parameters[part]}
        if "subsets" in differ:
            assert differ == {"subsets"}
            assert big.parameters["subsets"] > small.parameters["subsets"]
            continue
        targets = results.recipe(big.parameters["targets"])
        assert differ == {"targets"}
        assert len(big.items) == targets.parameters["subsets"] > len(small.items)
        assert f"results/{targets.name}.json" in big.data
        if not (paths.DATA / "results" / f"{name}.json").exists():
            with pytest.raises(FileNotFoundError, match=f"dprepro rebuild {name}"):
                results.load(name)
