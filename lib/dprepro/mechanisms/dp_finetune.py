"""Fine-tuning of a causal language model with DP-SGD, of all its weights or of LoRA adapters alone.

A step takes each text with probability sample_rate, clips the gradient of its loss to a norm of clipping_norm, adds
N(0, (noise_multiplier clipping_norm)^2) to the sum and divides by the expected batch size (Abadi et al. 2016, through
Opacus); the noisy gradient goes to Adam (Li et al., "Large Language Models Can Be Strong Differentially Private
Learners", arXiv 2110.05679). With LoRA (Hu et al., arXiv 2106.09685, through peft) only the adapters are trained: the
guarantee covers the private texts, the base model stays what it was, and per-example gradients have the size of the
adapters (Yu et al., arXiv 2110.06500). The unit of privacy is one text.
"""

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from dprepro.base.check import in_interval, positive_count
from dprepro.mechanisms.accounting import dp_sgd_epsilon

Rows = list[list[int]]  # tokens of texts

_IGNORED = -100  # a target that cross_entropy passes over


@dataclass(frozen=True)
class LoRA:
    """Low-rank adapters: W + (alpha / rank) B A beside every weight named in `target_modules`.

    Parameters
    ----------
    rank : int
    alpha : int
    target_modules : tuple of str
        Ends of module names: "c_attn" for GPT-2, "q_proj", "v_proj" for Llama.
    """

    rank: int = 8
    alpha: int = 16
    target_modules: tuple[str, ...] = ("c_attn",)

    def __post_init__(self) -> None:
        positive_count("rank", self.rank)
        positive_count("alpha", self.alpha)
        if isinstance(self.target_modules, str) or not self.target_modules:
            raise ValueError(f"target_modules must be a tuple of module names, got {self.target_modules!r}")

    def adapt(self, model: Any, rng: np.random.Generator) -> Any:
        """Return the model with adapters (a peft model); the base is frozen, the adapters start as the identity.

        Raises
        ------
        ValueError
            A target module that the model does not have; the message lists those that can be adapted.
        """
        import torch
        from peft import LoraConfig, get_peft_model
        from transformers.pytorch_utils import Conv1D

        fitting = [
            name for name, module in model.named_modules() if isinstance(module, (torch.nn.Linear, Conv1D))
        ]
        missing = [
            t for t in self.target_modules if not any(f".{name}".endswith(f".{t}") for name in fitting)
        ]
        if missing:
            found = ", ".join(sorted({name.rpartition(".")[2] for name in fitting}))
            raise ValueError(f"target_modules must be among {found}, got {', '.join(missing)}")
        settings = LoraConfig(
            r=self.rank,
            lora_alpha=self.alpha,
            target_modules=list(self.target_modules),
            fan_in_fan_out=any(isinstance(m, Conv1D) for m in model.modules()),
            task_type="CAUSAL_LM",
        )
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=FutureWarning)  # peft asks transformers by an old name
            torch.manual_seed(int(rng.integers(2**63)))
            return get_peft_model(model, settings)


class FineTuned(NamedTuple):
    """A model after fine-tuning.

    Attributes
    ----------
    model : transformers model
        A plain one, in evaluation mode: adapters are merged into the weights.
    trained : int
        Number of weights that were trained.
    empty_batches : int
        Steps whose sample was empty: noise alone.
    """

    model: Any
    trained: int
    empty_batches: int


@dataclass(frozen=True)
class DPFineTune:
    """DP-SGD (through Adam) on the texts of a causal language model.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise over the clipping norm, at least 0; 0 is not private.
    clipping_norm : float
        Positive; infinity (no clipping) with noise_multiplier 0 only.
    sample_rate : float
        Probability that a text is in a batch, in (0, 1].
    steps : int
    learning_rate : float
        Of Adam, positive.
    lora : LoRA, optional
        Train adapters alone.
    chunk : int
        Texts whose gradients are held in memory at once; no effect on the result but for rounding.
    """

    noise_multiplier: float
    clipping_norm: float
    sample_rate: float
    steps: int
    learning_rate: float
    lora: LoRA | None = None
    chunk: int = 32

    def __post_init__(self) -> None:
        in_interval("noise_multiplier", self.noise_multiplier, 0, np.inf, closed="left")
        in_interval("clipping_norm", self.clipping_norm, 0, np.inf, closed="right")
        in_interval("sample_rate", self.sample_rate, 0, 1, closed="right")
        positive_count("steps", self.steps)
        in_interval("learning_rate", self.learning_rate, 0, np.inf, closed="neither")
        positive_count("chunk", self.chunk)
        if np.isinf(self.clipping_norm) and self.noise_multiplier > 0:
            raise ValueError(
                f"clipping_norm must be finite where there is noise (noise_multiplier {self.noise_multiplier:g}), "
                "got inf"
            )

    def epsilon(self, delta: float, accountant: str = "pld") -> float:
        """Epsilon at `delta` of all steps together, one text added, removed or zeroed out."""
        return dp_sgd_epsilon(self.noise_multiplier, self.sample_rate, self.steps, delta, accountant)

    def fit(
        self,
        model: Any,
        tokenizer: Any,
        texts: Sequence[str],
        rng: np.random.Generator,
        *,
        records: int | None = None,
    ) -> FineTuned:
        """Fine-tune a copy of a model.

        Parameters
        ----------
        model, tokenizer
            Of transformers, causal; ``*tiny_lm()`` for the one at hand.
        texts : sequence of str, length n
            The private texts; each stands alone between begin and end marks.
        rng : Generator
            Draws the samples, the adapters' start and the noise.
        records : int, optional
            Number of texts, taken as public, that the expected batch size is counted from; n unless given. Give the
            same number for both where training sets with and without a text are compared.

        Raises
        ------
        ValueError
            No texts, an empty one, one that is longer than the model's window (named by its index), or a target
            module that the model does not have.
        """
        rows = token_rows(tokenizer, texts, int(model.config.max_position_embeddings))
        tuned = copy.deepcopy(model).train()
        if self.lora is not None:
            tuned = self.lora.adapt(tuned, rng)
        expected = self.sample_rate * (
            len(rows) if records is None else int(positive_count("records", records))
        )
        if np.isinf(self.clipping_norm):
            step = self._plain_step(tuned, expected)
        else:
            step = self._private_step(tuned, expected, int(rng.integers(2**63)))
        trained = sum(weight.numel() for weight in tuned.parameters() if weight.requires_grad)
        empty = 0
        for _ in tqdm(range(self.steps), desc="fine-tuning", unit="step", disable=None):
            drawn = np.flatnonzero(rng.random(len(rows)) < self.sample_rate)
            batch = sorted((rows[i] for i in drawn), key=len)  # texts of a chunk are padded to one length
            empty += not batch
            step([batch[i : i + self.chunk] for i in range(0, len(batch), self.chunk)])
        whole = tuned.merge_and_unload() if self.lora is not None else tuned
        return FineTuned(whole.eval(), trained, empty)

    def _plain_step(self, model: Any, expected: float) -> Callable[[list[Rows]], None]:
        adam = self._adam(model)

        def step(chunks: list[Rows]) -> None:
            adam.zero_grad()
            for rows in chunks:
                (text_losses(model, rows).sum() / expected).backward()
            if chunks:
                adam.step()

        return step

    def _private_step(self, model: Any, expected: float, seed: int) -> Callable[[list[Rows]], None]:
        import torch
        from opacus import GradSampleModule
        from opacus.optimizers import DPOptimizer

        weights = [weight for weight in model.parameters() if weight.requires_grad]
        per_text = GradSampleModule(model, loss_reduction="sum")
        adam = DPOptimizer(
            self._adam(model),
            noise_multiplier=self.noise_multiplier,
            max_grad_norm=self.clipping_norm,
            expected_batch_size=expected,
            loss_reduction="mean",  # divides the noisy sum by the expected batch size
            generator=torch.Generator(device=model.device).manual_seed(seed),
        )

        def step(chunks: list[Rows]) -> None:
            for number, rows in enumerate(chunks or [[]], start=1):
                if rows:
                    with warnings.catch_warnings():
                        warnings.filterwarnings(
                            "ignore", "Full backward hook"
                        )  # the inputs are token numbers
                        text_losses(per_text, rows).sum().backward()
                else:  # an empty batch is a step of noise alone
                    for weight in weights:
                        weight.grad_sample = weight.new_zeros((0, *weight.shape))
                adam.signal_skip_step(do_skip=number < len(chunks))  # until the last chunk: add up, no step
                adam.step()
                adam.zero_grad()

        return step

    def _adam(self, model: Any) -> Any:
        import torch

        return torch.optim.Adam([w for w in model.parameters() if w.requires_grad], self.learning_rate)


def token_rows(tokenizer: Any, texts: Sequence[str], window: int) -> Rows:
    """Return the tokens of each text, which with the mark before it must fit the window.

    Raises
    ------
    ValueError
        No texts, one text in place of a sequence, an empty text or one that is too long (named by its index).
    """
    if isinstance(texts, str) or len(texts) == 0 or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"texts must be a sequence of at least one text, got {texts!r:.80}")
    rows: Rows = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    for number, row in enumerate(rows):
        if not 0 < len(row) < window:
            raise ValueError(
                f"texts must have 1 to {window - 1} tokens (the window has {window}), got {len(row)} at index "
                f"{number}: {texts[number][:40]!r}"
            )
    return [[_start(tokenizer), *row, tokenizer.eos_token_id] for row in rows]


def text_losses(model: Any, rows: Rows) -> Any:
    """Mean loss over the tokens of each text, in nats: a tensor, shape (len(rows),).

    Parameters
    ----------
    model
        Causal, of transformers.
    rows : list of list of int
        From `token_rows`: begin mark, tokens, end mark. All but the first are predicted.
    """
    import torch

    device = next(model.parameters()).device
    tokens = torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(row) for row in rows], batch_first=True, padding_value=_IGNORED
    ).to(device)
    inputs, targets = tokens[:, :-1].clamp(min=0), tokens[:, 1:]
    # Positions are given text by text: Opacus needs a gradient of their embeddings for each. No mask: padding stands
    # on the right, where a causal model does not look.
    positions = torch.arange(inputs.shape[1], device=device).expand(len(rows), -1)
    logits = model(input_ids=inputs, position_ids=positions, use_cache=False).logits
    losses = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=_IGNORED, reduction="none"
    )
    return losses.view(targets.shape).sum(1) / (targets != _IGNORED).sum(1)


def _start(tokenizer: Any) -> int:
    start = tokenizer.bos_token_id
    return int(tokenizer.eos_token_id if start is None else start)
