"""Language models, embedders and corpora."""
