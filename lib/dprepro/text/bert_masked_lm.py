"""BERT as a masked language model: from a folder or by hub id, in the form of the packaged one.

Cape (arXiv 2505.05922) takes its logits from BERT. `masked_lm` has a small model that is installed with this project;
this loads the real one where a user has it. Its own head has the same two parts, a transform and a bias, over the
same decoder, the input embeddings.
"""

from typing import Any

from dprepro.text.masked_lm import MaskedLM
from dprepro.text.model_files import find_model


def bert_masked_lm(name: str, revision: str | None = None, allow_hub: bool = False) -> MaskedLM:
    """Load a BERT model with its masked-LM head.

    Parameters
    ----------
    name : str
        A folder, or a hub id such as "google-bert/bert-base-uncased".
    revision : str, optional
        Commit, tag or branch of a hub id.
    allow_hub : bool
        Whether a hub id that is not in the hub's cache may be fetched.

    Returns
    -------
    MaskedLM
        In single precision, on the CPU, frozen.

    Raises
    ------
    ValueError
        The model is none of the BERT architecture, has no masked-LM head, or one that does not share the input
        embeddings.
    FileNotFoundError
        As `model_files.find_model`.
    """
    from transformers import AutoConfig, AutoTokenizer, BertForMaskedLM

    folder = find_model(name, revision, allow_hub).folder()
    config = AutoConfig.from_pretrained(folder)
    if config.model_type != "bert":
        raise ValueError(
            f"name must be that of a BERT model, got {name!r}, which is a {config.model_type} model"
        )
    if not config.tie_word_embeddings:
        raise ValueError(f"name must be that of a model with tied embeddings, got {name!r}")
    loaded: Any = BertForMaskedLM.from_pretrained(folder, output_loading_info=True)
    model, said = loaded
    if missing := sorted(said["missing_keys"]):
        raise ValueError(
            f"name must be that of a model with a masked-LM head, got {name!r} without {missing[0]}"
        )
    model.eval().requires_grad_(False)
    return MaskedLM(model.bert, model.cls.predictions, AutoTokenizer.from_pretrained(folder))
