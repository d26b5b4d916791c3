"""A causal language model on this machine, through transformers: greedy texts and label log-probabilities.

A prompt's answer does not depend on its neighbours in a batch beyond the rounding of the matrix products: prompts are
padded on the left, the pads are masked, and positions are counted from the first real token. With the packaged model
in float32, logits (up to 30) move by 5e-6 on average and by 4e-5 at most, which is as far as they are from those in
float64.
"""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from dprepro.base.check import one_of, positive_count
from dprepro.text.embedders import _no_bar, _torch_threads
from dprepro.text.label_rows import LabelRows, after_prompt
from dprepro.text.model_files import PACKAGED, ModelFiles, find_model
from dprepro.text.questions import Answered, Question

T = TypeVar("T")
DTYPES = ("float32", "float64", "bfloat16", "float16")


@dataclass(frozen=True)
class LocalModel:
    """A model of which the weights are loaded at the first question; a `Source` of answers.

    Parameters
    ----------
    name : str
        The packaged model, a folder, or a hub id (`model_files.find_model`).
    max_tokens : int
        Tokens that an answer has at most.
    chat : bool
        Put each prompt into the model's chat template, as what the user says, and take what the assistant answers.
    batch_size : int
        Sequences in one forward pass.
    threads : int, optional
        Torch threads; None leaves torch as it is (in the batch: one, by OMP_NUM_THREADS).
    device : str, optional
        Torch device; by default CUDA where there is one, else the CPU.
    dtype : {"float32", "float64", "bfloat16", "float16"}
    revision : str, optional
        Commit, tag or branch of a hub id.
    allow_hub : bool
        Whether a hub id that is not in the hub's cache may be fetched.

    Raises
    ------
    ImportError
        Torch or transformers is not installed; the message has the command.
    FileNotFoundError
        As `model_files.find_model`.
    """

    name: str = PACKAGED
    max_tokens: int = 32
    chat: bool = False
    batch_size: int = 16
    threads: int | None = None
    device: str | None = None
    dtype: str = "float32"
    revision: str | None = None
    allow_hub: bool = False

    def __post_init__(self) -> None:
        positive_count("max_tokens", self.max_tokens)
        positive_count("batch_size", self.batch_size)
        if self.threads is not None:
            positive_count("threads", self.threads)
        one_of("dtype", self.dtype, DTYPES)
        _ = self.files  # a model that is not there is an error now, not at the first question

    @cached_property
    def files(self) -> ModelFiles:
        """The model's files and revision."""
        return find_model(self.name, self.revision, self.allow_hub)

    @property
    def identity(self) -> dict[str, Any]:
        """What a label's log-probability depends on beside the prompt."""
        return {
            "model": self.files.name,
            "revision": self.files.revision,
            "dtype": self.dtype,
            "chat": self.chat,
        }

    @property
    def decoding(self) -> dict[str, Any]:
        """What a text depends on beside these."""
        return {"temperature": 0, "max_tokens": self.max_tokens}

    @cached_property
    def model(self) -> Any:
        """The transformers model, loaded at the first use."""
        _, model = self._loaded
        return model

    @cached_property
    def tokenizer(self) -> Any:
        """Its tokenizer."""
        tokenizer, _ = self._loaded
        return tokenizer

    def answer(self, questions: Sequence[Question]) -> Iterator[list[Answered]]:
        """Yield answers batch by batch, the longest prompts first.

        Parameters
        ----------
        questions : sequence of Question
            All of them texts to go on with, or all of them with labels.

        Raises
        ------
        ValueError
            Before the first batch: a prompt too long for the model's window; a label of which the first token holds
            the end of the prompt too, so that its probability after the prompt is not defined.
        """
        texts = [self._templated(question.prompt) for question in questions]
        prompts = self._tokens(texts)
        if questions and questions[0].labels:
            rows = [
                self._rows(question, text, tokens)
                for question, text, tokens in zip(questions, texts, prompts, strict=True)
            ]
            yield from self._weighed(rows)
        else:
            for question, tokens in zip(questions, prompts, strict=True):
                self._check_window(question, len(tokens), self.max_tokens)
            yield from self._written(list(zip(questions, prompts, strict=True)))

    def _written(self, asked: list[tuple[Question, list[int]]]) -> Iterator[list[Answered]]:
        asked.sort(key=lambda item: -len(item[1]))
        for batch in _cut(asked, self.batch_size):
            inputs = self._padded([tokens for _, tokens in batch])
            with _torch_threads(self.threads), _no_gradients():
                whole = self.model.generate(**inputs, max_new_tokens=self.max_tokens)
            new = whole[:, inputs["input_ids"].shape[1] :].cpu()
            texts = self.tokenizer.batch_decode(
                new, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
            written = (new != self.tokenizer.pad_token_id).sum(dim=1).tolist()
            yield [
                Answered(question, text, len(tokens) + count)
                for (question, tokens), text, count in zip(batch, texts, written, strict=True)
            ]

    def _weighed(self, asked: list[LabelRows]) -> Iterator[list[Answered]]:
        asked.sort(key=lambda item: -len(item.sequences[0]))
        questions = max(1, self.batch_size // max(len(item.sequences) for item in asked))
        for batch in _cut(asked, questions):
            sequences = [sequence for item in batch for sequence in item.sequences]
            # Only the end of a sequence has to be turned into logits: the vocabulary is large.
            kept = max(len(sequence) - len(item.prompt) for item in batch for sequence in item.sequences) + 1
            inputs = self._padded(sequences)
            if "position_ids" in self._forward:
                inputs["position_ids"] = (inputs["attention_mask"].cumsum(dim=1) - 1).clamp(min=0)
            if "logits_to_keep" in self._forward:
                inputs["logits_to_keep"] = kept
            with _torch_threads(self.threads), _no_gradients():
                logits = self.model(**inputs, use_cache=False).logits[:, -kept:]
                table = logits.double().log_softmax(dim=-1).cpu().numpy()
            row, answers = 0, []
            for item in batch:
                scores = item.scores(table[row : row + len(item.sequences)])
                row += len(item.sequences)
                answers.append(Answered(item.question, scores, sum(map(len, item.sequences))))
            yield answers

    def _rows(self, question: Question, text: str, prompt: list[int]) -> LabelRows:
        labels = after_prompt(question, prompt, self._tokens([text + label for label in question.labels]))
        self._check_window(question, len(prompt), max(map(len, labels)))
        return LabelRows(question, prompt, labels)

    def _templated(self, prompt: str) -> str:
        if not self.chat:
            return prompt
        if self.tokenizer.chat_template is None:
            raise ValueError(f"chat must be False for {self.name!r}, which has no chat template")
        said = [{"role": "user", "content": prompt}]
        return self.tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)

    def _tokens(self, texts: list[str]) -> list[list[int]]:
        # A chat template writes the marks of the beginning itself.
        return self.tokenizer(texts, add_special_tokens=not self.chat)["input_ids"] if texts else []

    def _check_window(self, question: Question, tokens: int, more: int) -> None:
        window = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        if window is not None and tokens + more > window:
            raise ValueError(
                f"{question} must fit the window of {self.name!r}, {window:,} tokens, "
                f"got {tokens:,} and up to {more:,} after it"
            )

    def _padded(self, sequences: list[list[int]]) -> dict[str, Any]:
        import torch

        width = max(map(len, sequences))
        ids = torch.full((len(sequences), width), self.tokenizer.pad_token_id)
        mask = torch.zeros_like(ids)
        for row, sequence in enumerate(sequences):
            ids[row, width - len(sequence) :] = torch.tensor(sequence)
            mask[row, width - len(sequence) :] = 1
        device = self.model.device
        return {"input_ids": ids.to(device), "attention_mask": mask.to(device)}

    @cached_property
    def _forward(self) -> set[str]:
        return set(inspect.signature(self.model.forward).parameters)

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        try:
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
        except ImportError as error:
            raise ImportError(
                f"model {self.name!r} needs torch and transformers ({error}): "
                "run `pip install -e .[models]` or `python -m dprepro setup`"
            ) from error
        folder = self.files.folder()
        device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            with _no_bar(), _torch_threads(self.threads):
                tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
                model = AutoModelForCausalLM.from_pretrained(
                    folder, dtype=getattr(torch, self.dtype), local_files_only=True, use_safetensors=True
                )
        except Exception as error:
            raise FileNotFoundError(f"model {self.name!r} cannot be loaded from {folder}: {error}") from error
        ends = model.generation_config.eos_token_id
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        # Greedy and nothing else: a model may ship its own temperature or a penalty on repetition.
        model.generation_config = GenerationConfig(
            do_sample=False, eos_token_id=ends, pad_token_id=tokenizer.pad_token_id
        )
        return tokenizer, model.eval().to(device)


def _cut(items: list[T], size: int) -> Iterator[list[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _no_gradients() -> Any:
    import torch

    return torch.inference_mode()
