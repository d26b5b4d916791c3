"""The local model: greedy and repeatable, whatever the batch; labels by the chain rule; any model in a folder."""

import functools
import sys

import numpy as np
import pytest

from dprepro.text.answers import AnswerStore
from dprepro.text.local_model import LocalModel
from dprepro.text.packaged import weights
from dprepro.text.questions import Question
from dprepro.text.responders import StoredResponder, over_label_set

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

PROMPTS = [
    "The capital of France is",
    "Q: What is two plus three?\nA:",
    "Review: the plot drags and the jokes fall flat.\nSentiment:",
    "Review: a warm, funny film that I would gladly see again.\nSentiment:",
    "Once upon a time there was a little girl who lived in a village near the forest, and she",
    "1, 2, 3, 4,",
    "日本の首都は",
]
LABELS = [" positive", " negative", " very good indeed", " very bad", " Paris"]


def written(source, prompts=PROMPTS):
    """Texts by prompt, straight from the source."""
    asked = [Question(i, prompt) for i, prompt in enumerate(prompts)]
    found = {item.question.index: item.answer for batch in source.answer(asked) for item in batch}
    return [found[i] for i in range(len(prompts))]


def weighed(source, prompts=PROMPTS, labels=LABELS):
    asked = [Question(i, prompt, tuple(labels)) for i, prompt in enumerate(prompts)]
    found = {item.question.index: item.answer for batch in source.answer(asked) for item in batch}
    return np.array([found[i] for i in range(len(prompts))])


@pytest.fixture(scope="module")
def texts(packaged):
    return written(packaged)


@pytest.fixture(scope="module")
def table(packaged):
    return weighed(packaged)


@pytest.fixture(scope="module")
def gguf():
    """The module of that name, which reads the file once: transformers would do so for each of its questions."""
    module = pytest.importorskip("gguf")
    read = module.GGUFReader

    @functools.cache
    def reader(path):
        # A million slices of a memory map cost more than those of an array in memory.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(np, "memmap", lambda file, mode: np.fromfile(file, np.uint8))
            return read(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "GGUFReader", reader)
        patch.setattr(module, "get_tensor_name_map", functools.cache(module.get_tensor_name_map))
        yield module


def test_the_conversion_has_the_logits_of_the_gguf_file(packaged, gguf):
    path = weights("smollm2-135m-instruct")
    read = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32
    )
    for prompt in PROMPTS:
        tokens = packaged.tokenizer(prompt, return_tensors="pt")
        with torch.inference_mode():
            assert torch.equal(read(**tokens).logits, packaged.model(**tokens).logits)


def test_the_tokens_of_the_gguf_file(packaged, gguf):
    """Its own list of tokens, read without transformers."""
    path = str(weights("smollm2-135m-instruct"))  # as transformers names it
    field = gguf.GGUFReader(path).fields["tokenizer.ggml.tokens"]
    names = packaged.tokenizer.convert_ids_to_tokens(list(range(len(field.data))))
    assert len(names) == packaged.model.config.vocab_size == 49_152
    for token in range(0, 49_152, 97):
        assert bytes(field.parts[field.data[token]]).decode() == names[token]
    assert (
        packaged.tokenizer.decode(packaged.tokenizer("Zoë paid 1,250 €")["input_ids"]) == "Zoë paid 1,250 €"
    )
    assert "<|im_start|>assistant" in packaged.tokenizer.chat_template


def test_a_known_answer(texts):
    assert texts[0].startswith(" Paris")
    assert texts[5].startswith(" 5,")


def test_greedy_by_hand(packaged, texts):
    """One token at a time, without a cache, a batch or padding: the largest logit."""
    for prompt, text in zip(PROMPTS[:2], texts[:2], strict=True):
        tokens = packaged.tokenizer(prompt)["input_ids"]
        start = len(tokens)
        for _ in range(packaged.max_tokens):
            with torch.inference_mode():
                tokens.append(int(packaged.model(input_ids=torch.tensor([tokens])).logits[0, -1].argmax()))
            if tokens[-1] == packaged.tokenizer.eos_token_id:
                break
        assert packaged.tokenizer.decode(tokens[start:], skip_special_tokens=True) == text


@pytest.mark.parametrize("batch_size", [3])
def test_texts_depend_neither_on_the_batch_nor_on_the_order(variant, texts, batch_size):
    assert written(variant(batch_size=batch_size), PROMPTS[::-1])[::-1] == texts


@pytest.mark.parametrize("batch_size", [1])
def test_log_probabilities_depend_neither_on_the_batch_nor_on_the_order(variant, table, batch_size):
    again = weighed(variant(batch_size=batch_size), PROMPTS[::-1], LABELS[::-1])[::-1, ::-1]
    np.testing.assert_allclose(again, table, atol=1e-4)


def test_repeats_are_the_same_to_the_bit(packaged, texts, table):
    assert written(packaged) == texts
    np.testing.assert_array_equal(weighed(packaged), table)


def test_labels_against_transformers(packaged, table):
    """Each label alone, the whole text in one forward pass, log-softmax at each of its tokens."""
    for row, prompt in list(enumerate(PROMPTS))[::3]:
        for column, label in enumerate(LABELS):
            start = len(packaged.tokenizer(prompt)["input_ids"])
            tokens = packaged.tokenizer(prompt + label)["input_ids"]
            with torch.inference_mode():
                logits = packaged.model(input_ids=torch.tensor([tokens])).logits[0].double()
            after = logits.log_softmax(dim=-1)
            direct = sum(after[place - 1, tokens[place]].item() for place in range(start, len(tokens)))
            assert table[row, column] == pytest.approx(direct, abs=1e-4), (prompt, label)


def test_labels_mean_something(table):
    order = over_label_set(table[2:4, :2])
    assert order[0, 1] - order[0, 0] > order[1, 1] - order[1, 0], "the bad review is the more negative one"
    assert table[0].argmax() == LABELS.index(" Paris")
    assert (np.exp(table).sum(axis=1) < 1).all()


def test_through_the_store(packaged, texts, table, tmp_path):
    asked = StoredResponder(packaged, AnswerStore(tmp_path), progress=False)
    assert asked.generate([*PROMPTS, PROMPTS[0]]) == [*texts, texts[0]]
    np.testing.assert_allclose(asked.label_logprobs(PROMPTS[:2], LABELS), table[:2], atol=1e-4)
    again = StoredResponder(LocalModel(max_tokens=4), asked.store)
    assert again.generate(PROMPTS) == texts
    assert again.calls == 0
    assert "_loaded" not in again.source.__dict__, "stored answers need no weights"


def test_chat(variant, packaged):
    chat = variant(chat=True)
    (text,) = written(chat, ["What is the capital of France? Answer in one word."])
    said = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]
    tokens = packaged.tokenizer.apply_chat_template(said, add_generation_prompt=True, return_tensors="pt")
    direct = packaged.model.generate(**tokens, max_new_tokens=4, do_sample=False)
    whole = packaged.tokenizer.decode(direct[0], skip_special_tokens=True)
    assert whole.endswith("\n" + text)
    assert chat.identity != packaged.identity
    assert weighed(chat, ["Is ice cold?"], ["Yes", "No"]).shape == (1, 2)


def test_a_label_that_runs_together_with_the_prompt(packaged):
    with pytest.raises(ValueError, match=r"label 'positive' runs together .* prompt 1 \('Sentiment: '\)"):
        weighed(packaged, ["Sentiment:\n", "Sentiment: "], ["positive"])


def test_a_prompt_too_long_is_named_before_any_call(packaged, monkeypatch):
    asked = [Question(0, "short"), Question(5, "The same words. " * 2100)]
    monkeypatch.setattr(type(packaged), "_written", lambda *_: pytest.fail("called"))
    message = r"prompt 5 \('The same words. .*\) must fit the window .* 8,192 tokens, got 8,40\d and up to 4"
    with pytest.raises(ValueError, match=message):
        list(packaged.answer(asked))
    with pytest.raises(ValueError, match=message.replace("up to 4", "up to 2")):
        list(packaged.answer([Question(5, asked[1].prompt, (" very good",))]))


def test_threads_are_put_back(variant, monkeypatch):
    before, seen = torch.get_num_threads(), []
    other = variant(threads=before + 1, max_tokens=1)
    generate = other.model.generate
    monkeypatch.setattr(
        other.model, "generate", lambda **_: seen.append(torch.get_num_threads()) or generate(**_)
    )
    written(other, ["a"])
    assert (seen, torch.get_num_threads()) == ([before + 1], before)


def test_no_questions(packaged):
    assert list(packaged.answer([])) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_tokens": 0}, "max_tokens must be a whole number of at least 1, got 0"),
        ({"batch_size": 0.5}, "batch_size must be"),
        ({"threads": 0}, "threads must be"),
        ({"dtype": "int8"}, "dtype must be one of 'float32', 'float64', 'bfloat16', 'float16', got 'int8'"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        LocalModel(**options)


def test_without_transformers(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"pip install -e .\[models\]"):
        _ = LocalModel().model


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory):
    """A GPT-2 of two narrow layers: positions are learned, there is no pad and no template, its window is 40."""
    folder = tmp_path_factory.mktemp("tiny") / "tiny-gpt2"
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate([*alphabet, "<end>"])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")
    torch.manual_seed(1)
    configuration = transformers.GPT2Config(
        vocab_size=257,
        n_positions=40,
        n_embd=32,
        n_layer=2,
        n_head=2,
        initializer_range=0.5,
        bos_token_id=256,
        eos_token_id=256,
    )
    model = transformers.GPT2LMHeadModel(configuration)
    # What a model may ship against plain greedy decoding.
    model.generation_config.update(do_sample=True, temperature=9.0, repetition_penalty=5.0, eos_token_id=256)
    model.save_pretrained(folder)
    wrapped.save_pretrained(folder)
    return folder


def test_any_folder(tiny_folder):
    tiny = LocalModel(str(tiny_folder), max_tokens=6, threads=1)
    prompts = ["a", "some words", "a rather longer prompt than that"]
    for prompt, text in zip(prompts, written(tiny, prompts), strict=True):
        tokens = list(prompt.encode())
        ids = tiny.tokenizer(prompt)["input_ids"]
        assert len(ids) == len(tokens)
        for _ in range(6):
            with torch.inference_mode():
                ids.append(int(tiny.model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
            if ids[-1] == 256:
                break
        assert tiny.tokenizer.decode(ids[len(tokens) :], skip_special_tokens=True) == text
    alone = np.concatenate([weighed(tiny, [prompt], ["xyz", "xq", "o"]) for prompt in prompts])
    np.testing.assert_allclose(weighed(tiny, prompts, ["xyz", "xq", "o"]), alone, atol=1e-5)
    assert tiny.identity["model"] == "tiny-gpt2"
    assert len(tiny.identity["revision"]) == 64
    with pytest.raises(ValueError, match="window of .*tiny-gpt2', 40 tokens, got 36 and up to 6"):
        written(tiny, ["x" * 36])
    assert written(tiny, ["x" * 34])
    with pytest.raises(ValueError, match="chat must be False for .*no chat template"):
        written(LocalModel(str(tiny_folder), chat=True), ["a"])


def test_half_precision(tiny_folder):
    half = LocalModel(str(tiny_folder), dtype="bfloat16", threads=1)
    assert half.model.dtype == torch.bfloat16
    full = LocalModel(str(tiny_folder), threads=1)
    np.testing.assert_allclose(
        weighed(half, ["some words"], ["xy", "o"]), weighed(full, ["some words"], ["xy", "o"]), rtol=0.1
    )
    assert half.identity != full.identity


def test_weights_that_cannot_be_read(tiny_folder, tmp_path):
    import shutil

    folder = shutil.copytree(tiny_folder, tmp_path / "broken")
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:100])
    with pytest.raises(FileNotFoundError, match=f"cannot be loaded from {folder}"):
        _ = LocalModel(str(folder)).model
