"""A BERT of a user's own, small and random, from a folder: the logits are those of transformers' own class."""

import numpy as np
import pytest

from dprepro.text.bert_masked_lm import bert_masked_lm
from dprepro.text.masked_lm import masked_lm

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("sentence_transformers")

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("bert")
    masked_lm().tokenizer.save_pretrained(where)
    return where


def save(folder, kind=None, **settings):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        model = (kind or transformers.BertForMaskedLM)(transformers.BertConfig(**SIZES, **settings))
        if kind is None:
            torch.nn.init.normal_(model.cls.predictions.bias)  # as trained ones are: not 0
    model.eval().save_pretrained(folder)
    return model


def test_logits_are_those_of_transformers(folder):
    oracle = save(folder)
    lm = bert_masked_lm(str(folder))
    for text in ("a [MASK] film", "[MASK]", "the plot is [MASK] , but the cast saves it"):
        inputs = lm.tokenizer(text, return_tensors="pt")
        place = (inputs["input_ids"][0] == lm.tokenizer.mask_token_id).nonzero().item()
        with torch.inference_mode():
            wanted = oracle(**inputs).logits[0, place].numpy()
        np.testing.assert_allclose(lm.logits([text])[0], wanted, atol=1e-5)
    assert not any(weight.requires_grad for weight in (*lm.encoder.parameters(), *lm.head.parameters()))


def test_cape_takes_its_logits_from_it(folder):
    from dprepro.mechanisms.prompt.cape import Cape
    from dprepro.mechanisms.prompt.context import MaskedContext

    save(folder)
    context = MaskedContext(bert_masked_lm(str(folder)))
    found = Cape(context.vocabulary, "both", context).perturb(["a good film"], 6.0, np.random.default_rng(0))
    assert (found.replaced + found.unchanged, found.kept) == (2, 1)
    assert context.vocabulary.vectors.shape[1] == 16


def test_what_is_no_bert_with_a_head_is_refused(folder, tmp_path):
    save(folder, transformers.BertModel)
    with pytest.raises(
        ValueError, match="name must be that of a model with a masked-LM head, got .* without cls"
    ):
        bert_masked_lm(str(folder))
    save(folder, tie_word_embeddings=False)
    with pytest.raises(ValueError, match="name must be that of a model with tied embeddings"):
        bert_masked_lm(str(folder))
    with pytest.raises(ValueError, match="name must be that of a BERT model, got .*, which is a llama model"):
        bert_masked_lm("smollm2-135m-instruct")
    with pytest.raises(FileNotFoundError, match="holds no config.json"):
        bert_masked_lm(str(tmp_path))
