"""Stated target of Cape: a thousand sentences in less than 60 s on two cores, once the logits are there."""

import time

import numpy as np
import pytest

from dprepro.audits.prompt_snippets import context_model, snippets
from dprepro.mechanisms.prompt.cape import Cape

pytestmark = pytest.mark.benchmark


def test_a_thousand_sentences_take_less_than_a_minute():
    vocabulary = context_model().vocabulary
    cuts = [vocabulary.cut(text, "both") for text in snippets("test", 1000).texts]
    rows = np.concatenate([cut.rows[cut.sensitive] for cut in cuts])
    mechanism, rng = Cape(vocabulary, "both"), np.random.default_rng(0)
    logits = rng.normal(0, 3, (250, len(vocabulary))).astype(
        np.float32
    )  # 1.5 GB for all: these stand for them
    mechanism.draw(rows[:50], 6.0, rng, logits[:50])
    start = time.perf_counter()
    for first in range(0, len(rows), 250):
        part = rows[first : first + 250]
        mechanism.draw(part, 6.0, rng, logits[: len(part)])
    seconds = time.perf_counter() - start
    print(
        f"\n{len(cuts):,} sentences, {len(rows):,} tokens: {seconds:.1f} s, {1e3 * seconds / len(rows):.1f} ms each"
    )
    assert seconds < 60
