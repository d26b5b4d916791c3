"""A causal language model over a short list of words: small enough to train, with privacy and without, in seconds.

A GPT-2 (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019) whose tokens are whole words,
with random weights. For experiments on texts made from templates, whose words are all known: what the model knows is
what it was trained on in the experiment. `tiny_lm` is the one that has read public text.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dprepro.base.check import positive_count

END, PAD = "<end>", "<pad>"


class WordLM(NamedTuple):
    """A model and its tokenizer: ``model, tokenizer = word_lm(words, rng)``.

    Attributes
    ----------
    model : transformers.GPT2LMHeadModel
        float32, in evaluation mode, without dropout, output layer tied to the input embeddings.
    tokenizer : transformers.PreTrainedTokenizerFast
        White space separates tokens. Begin and end of a text are the same token.
    """

    model: Any
    tokenizer: Any

    def go_on(self, prompt: str, tokens: int) -> str:
        """Return what greedy decoding appends to a prompt: at most `tokens` words, fewer if the text ends before.

        Raises
        ------
        ValueError
            A prompt that leaves no room in the window for so many tokens, or has an unknown word.
        """
        import torch

        more, window = int(positive_count("tokens", tokens)), int(self.model.config.n_positions)
        row = [self.tokenizer.bos_token_id, *token_numbers(self.tokenizer, prompt)]
        if len(row) + more > window:
            raise ValueError(f"tokens must be at most {window - len(row)} after this prompt, got {more}")
        found: list[int] = []
        with torch.inference_mode():
            while len(found) < more:
                logits = self.model(input_ids=torch.tensor([row + found]), use_cache=False).logits[0, -1]
                found.append(int(logits.argmax()))
                if found[-1] == self.tokenizer.eos_token_id:
                    break
        return str(self.tokenizer.decode(found, skip_special_tokens=True))


def word_lm(
    words: Sequence[str],
    rng: np.random.Generator,
    *,
    width: int = 32,
    layers: int = 2,
    heads: int = 4,
    window: int = 24,
) -> WordLM:
    """Make an untrained model.

    Parameters
    ----------
    words : sequence of str
        The vocabulary: all different, none empty or with white space in it.
    rng : Generator
        Draws the weights; the random state of torch stays as it is.
    width, layers, heads : int
        Of the transformer, each at least 1; width is a multiple of heads.
    window : int
        Tokens that the model sees, begin and end marks included; at least 2.

    Raises
    ------
    ValueError
        Words that are no vocabulary, or an argument outside its domain.
    """
    known = _vocabulary(words)
    sizes: dict[str, Any] = {
        "n_embd": int(positive_count("width", width)),
        "n_layer": int(positive_count("layers", layers)),
        "n_head": int(positive_count("heads", heads)),
        "n_positions": int(positive_count("window", window, minimum=2)),
    }
    if width % heads:
        raise ValueError(f"width must be a multiple of heads ({heads}), got {width}")
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    split = Tokenizer(models.WordLevel(known))
    split.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=split, bos_token=END, eos_token=END, pad_token=PAD, model_max_length=window
    )
    no_dropout: dict[str, Any] = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    config = GPT2Config(
        vocab_size=len(known),
        bos_token_id=0,
        eos_token_id=0,
        activation_function="gelu_pytorch_tanh",  # GPT-2's own, in one operation in place of eight
        **sizes,
        **no_dropout,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**63)))
        model = GPT2LMHeadModel(config).eval()
    return WordLM(model, tokenizer)


def token_numbers(tokenizer: Any, text: str) -> list[int]:
    """Return the numbers of a text's words.

    Raises
    ------
    ValueError
        A word that is not in the vocabulary; the message names it.
    """
    known = tokenizer.get_vocab()
    if unknown := [word for word in text.split() if word not in known]:
        raise ValueError(f"text must consist of known words, got {unknown[0]!r}")
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _vocabulary(words: Sequence[str]) -> dict[str, int]:
    if isinstance(words, str) or not len(words):
        raise ValueError(f"words must be a sequence of words, got {words!r:.80}")
    known = {END: 0, PAD: 1}
    for word in words:
        if not isinstance(word, str) or word.split() != [word] or word in known:
            raise ValueError(f"words must be different, without white space or a mark's name, got {word!r}")
        known[word] = len(known)
    return known
