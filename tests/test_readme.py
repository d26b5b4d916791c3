"""README: the example runs and prints what the text says, links resolve, the headline is there."""

import re
import tomllib

import pytest
import yaml

import dprepro
from dprepro.base.paths import ROOT
from dprepro.kit.refresh import split_readme

README = (ROOT / "README.md").read_text(encoding="utf-8")


EXAMPLES = re.findall(r"<!-- example: run by the tests -->\n```python\n(.*?)```", README, re.S)


@pytest.mark.parametrize("code", EXAMPLES, ids=lambda code: code.split("import ")[-1].split()[0])
def test_an_example_prints_what_the_text_says(code, capsys):
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    exec(code, {})
    printed = capsys.readouterr().out.strip()
    assert f"prints `{printed}`" in " ".join(README.split())


def test_there_are_three_examples():
    assert len(EXAMPLES) == 3


def test_relative_links_resolve():
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if not link.startswith("http")]
    assert len(links) > 5
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_headline_is_the_one_of_a_run():
    headline = split_readme(README)[1]
    assert re.search(r"^snapaudit +table1 +60 ", headline, re.M)


def test_citation_version_and_licence_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == project["version"] == dprepro.__version__
    assert citation["license"] == project["license"] == "MIT"
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License\n")
