"""A causal language model of 1.07 million weights, trained on public text only: its probabilities and samples.

What fine-tuning with differential privacy starts from here (Yu et al., arXiv 2110.06500, with GPT-2 in place of this
one): a GPT-2 in small over 2,048 byte-level BPE tokens, made by `tiny_lm_training`, stored in data/models/tiny-lm.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprepro.base.check import in_interval, positive_count
from dprepro.text.pretrained import load
from dprepro.text.tiny_lm_training import END, PAD, WINDOW, next_token_scores

NAME = "tiny-lm"


class TinyLM(NamedTuple):
    """A model and its tokenizer: ``model, tokenizer = tiny_lm()``, or the two with the methods below.

    The methods work with other weights of this configuration: ``TinyLM(fine_tuned, tokenizer).sample(10, rng)``.

    Attributes
    ----------
    model : transformers.GPT2LMHeadModel
        float32, in evaluation mode, without dropout, output layer tied to the input embeddings, window 128.
    tokenizer : transformers.PreTrainedTokenizerFast
        Begin and end of a text are the same token, <|endoftext|>; padding is another one, <|pad|>.
    """

    model: Any
    tokenizer: Any

    def log_probabilities(self, texts: Sequence[str], batch_size: int = 32) -> list[NDArray[np.float64]]:
        """Log-probability of each token of each text, given those before it.

        Parameters
        ----------
        texts : sequence of str, length n
            Each stands alone, behind the end mark.
        batch_size : int

        Returns
        -------
        list of ndarray, length n
            In nats; one entry for each token and a last one for the end of the text. The sum is the log-probability
            of the text. Texts beside it in a batch move the last bits (about 1e-6).

        Raises
        ------
        ValueError
            A single text in place of a sequence, an empty text, or one of more than 127 tokens.
        """
        import torch

        rows = self._rows("texts", texts, WINDOW - 1)
        size = int(positive_count("batch_size", batch_size))
        found: list[NDArray[np.float64]] = [np.empty(0)] * len(rows)
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        with torch.inference_mode():
            for start in range(0, len(order), size):
                batch = order[start : start + size]
                scores = next_token_scores(self.model, [rows[i] for i in batch])
                for i, line in zip(batch, scores, strict=True):
                    found[i] = line.double().cpu().numpy()
        return found

    def perplexity(self, texts: Sequence[str], batch_size: int = 32) -> float:
        """Return exp of the mean negative log-probability over all tokens of the texts, their ends included.

        Raises
        ------
        ValueError
            As `log_probabilities`, and for no texts.
        """
        if len(texts) == 0:
            raise ValueError("texts must hold a text at least, got none")
        return float(np.exp(-np.concatenate(self.log_probabilities(texts, batch_size)).mean()))

    def sample(
        self,
        n: int,
        rng: np.random.Generator,
        prompt: str = "",
        max_tokens: int = 64,
        temperature: float = 1.0,
        batch_size: int = 64,
    ) -> list[str]:
        """Draw texts from the model, by the `generate` of transformers.

        Parameters
        ----------
        n : int
            Number of texts.
        rng : Generator
            Gives the seed of each batch; the random state of torch stays as it is.
        prompt : str
            What each text begins with; it is part of what is returned.
        max_tokens : int
            Tokens after the prompt at most. A text that ends before is shorter.
        temperature : float
            Above 0. At 1, texts come with the probabilities that `log_probabilities` states; nothing is cut off.
        batch_size : int
            Texts drawn at once; another number draws other texts from the same `rng`.

        Returns
        -------
        list of str, length n

        Raises
        ------
        ValueError
            Arguments outside their domains; a prompt that leaves no room in the window for `max_tokens`.
        """
        import torch

        count, size = int(positive_count("n", n)), int(positive_count("batch_size", batch_size))
        more = int(positive_count("max_tokens", max_tokens))
        heat = float(in_interval("temperature", temperature, 0, np.inf, closed="neither"))
        start = self._rows("prompt", [prompt], WINDOW - 1 - more)[0] if prompt else []
        if len(start) + more > WINDOW - 1:
            raise ValueError(f"max_tokens must be at most {WINDOW - 1}, got {more}")
        texts: list[str] = []
        while len(texts) < count:
            rows = min(size, count - len(texts))
            begin = torch.tensor([[0, *start]] * rows, device=self.model.device)
            with torch.random.fork_rng(), torch.inference_mode():
                torch.manual_seed(int(rng.integers(2**63)))
                drawn = self.model.generate(
                    begin,
                    attention_mask=torch.ones_like(begin),
                    do_sample=True,
                    temperature=heat,
                    top_k=0,
                    top_p=1.0,
                    pad_token_id=0,  # the end mark once more: transformers takes other padding for a mistake
                    max_new_tokens=more,
                )
            texts += self.tokenizer.batch_decode(drawn, skip_special_tokens=True)
        return texts

    def _rows(self, name: str, texts: Sequence[str], limit: int) -> list[list[int]]:
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{name} must be a sequence of texts, got {texts!r:.80}")
        rows = self.tokenizer(list(texts), add_special_tokens=False)["input_ids"] if len(texts) else []
        for number, (text, row) in enumerate(zip(texts, rows, strict=True)):
            if not row:
                raise ValueError(f"{name} must not be empty, got '' at index {number}")
            if len(row) > limit:
                raise ValueError(
                    f"{name} must have at most {limit} tokens (the window has {WINDOW}), "
                    f"got {len(row)} at index {number}: {text[:40]!r}"
                )
        return rows


def tiny_lm() -> TinyLM:
    """Load the model. Each call gives one of its own, so training one leaves the others as they were.

    Raises
    ------
    ImportError
        Torch or transformers is not installed; the message has the command.
    FileNotFoundError, ValueError
        As `pretrained.load`.
    """
    files = load(NAME)
    try:
        import torch
        from safetensors.torch import load as tensors
        from tokenizers import Tokenizer
        from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
    except ImportError as error:
        raise ImportError(
            f"the model {NAME} needs torch and transformers ({error}): "
            "run `pip install -e .[models]` or `python -m dprepro setup`"
        ) from error
    with torch.random.fork_rng(devices=[]):  # the weights it begins with are drawn, and replaced at once
        model = GPT2LMHeadModel(GPT2Config.from_dict(json.loads(files["config.json"]))).eval()
    weights = {name: tensor.float() for name, tensor in tensors(files["model.safetensors"]).items()}
    model.load_state_dict({**weights, "lm_head.weight": weights["transformer.wte.weight"]})
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_buffer(files["tokenizer.json"]),
        bos_token=END,
        eos_token=END,
        pad_token=PAD,
        model_max_length=WINDOW,
        clean_up_tokenization_spaces=False,
    )
    return TinyLM(model, tokenizer)
